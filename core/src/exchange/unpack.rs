//! Compressed request bodies (known trap W1): the model's name is read from the plain bytes, and the replica gets those,
//! without `content-encoding` and with their own length. Few replicas can read packed ones.
//!
//! Bytes in, bytes out. The crates are written in safe or well-fuzzed Rust, do no I/O of their own and need no C
//! compiler: flate2 over miniz_oxide, brotli-decompressor, ruzstd.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http::header::{CONTENT_ENCODING, HeaderMap};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read;

use super::denial::{Code, Denial};

/// What comes out is taken in pieces of this size; a bomb is noticed within one.
const PIECE: usize = 32 * 1024;
/// What a zstd frame may have its reader look back on (RFC 9659 allows no more for HTTP).
const ZSTD_WINDOW: u64 = 8 * 1024 * 1024;

/// A known content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    /// The coding that the headers name; `None`: the body is plain.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Denial> {
        let lines = headers.get_all(CONTENT_ENCODING).iter();
        let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let mut found = None;
        for name in names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity")) {
            // Packing twice is allowed and done by nobody but those who build bombs.
            if found.replace(Self::named(name).ok_or_else(unsupported)?).is_some() {
                return Err(unsupported());
            }
        }
        Ok(found)
    }

    fn named(name: &[u8]) -> Option<Self> {
        let known: [(&[u8], Self); 5] = [
            (b"gzip", Self::Gzip),
            (b"x-gzip", Self::Gzip),
            (b"deflate", Self::Deflate),
            (b"br", Self::Brotli),
            (b"zstd", Self::Zstd),
        ];
        known.into_iter().find(|(word, _)| name.eq_ignore_ascii_case(word)).map(|(_, coding)| coding)
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The plain bytes, at most `limit` of them.
    pub(super) fn unpack(self, packed: &[u8], limit: u64) -> Result<Bytes, Denial> {
        let mut plain = Plain { bytes: Vec::new(), limit: usize::try_from(limit).unwrap_or(usize::MAX) };
        let done = match self {
            Self::Gzip => gzip(packed, &mut plain),
            Self::Deflate => deflate(packed, &mut plain),
            Self::Brotli => brotli(packed, &mut plain),
            Self::Zstd => zstd(packed, &mut plain),
        };
        match done {
            Ok(()) => Ok(plain.bytes.into()),
            Err(Fault::TooLarge) => Err(Denial::body_too_large(limit)),
            Err(Fault::Broken) => Err(Denial::new(
                Code::InvalidRequest,
                format!("The request body is not whole and valid {}. Send it again, or uncompressed.", self.label()),
            )),
        }
    }
}

fn unsupported() -> Denial {
    Denial::new(
        Code::UnsupportedEncoding,
        "The request body is packed in a way this server does not read. Use one of gzip, deflate, br and zstd, or none.",
    )
}

enum Fault {
    Broken,
    TooLarge,
}

/// What came out so far.
struct Plain {
    bytes: Vec<u8>,
    limit: usize,
}

impl Plain {
    fn add(&mut self, piece: &[u8]) -> Result<(), Fault> {
        let len = self.bytes.len() + piece.len();
        if len > self.limit {
            return Err(Fault::TooLarge);
        }
        if len > self.bytes.capacity() {
            // Doubling, but never beyond the limit.
            let room = (self.bytes.capacity() * 2).max(PIECE).max(len).min(self.limit);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

fn gzip(packed: &[u8], plain: &mut Plain) -> Result<(), Fault> {
    if packed.is_empty() {
        return Err(Fault::Broken);
    }
    let mut reader = MultiGzDecoder::new(packed);
    let mut piece = [0; PIECE];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(len) => plain.add(piece.get(..len).unwrap_or_default())?,
            Err(_) => return Err(Fault::Broken),
        }
    }
}

/// zlib's wrapping, as the standard says, or none, as some send it.
fn deflate(packed: &[u8], plain: &mut Plain) -> Result<(), Fault> {
    let wrapped = matches!(packed, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31));
    let mut inflater = Decompress::new(wrapped);
    let mut piece = [0; PIECE];
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    loop {
        let (taken, given) = (count(inflater.total_in()), count(inflater.total_out()));
        let rest = packed.get(taken..).unwrap_or_default();
        let status = inflater.decompress(rest, &mut piece, FlushDecompress::None).map_err(|_| Fault::Broken)?;
        let len = count(inflater.total_out()) - given;
        plain.add(piece.get(..len).unwrap_or_default())?;
        match status {
            Status::StreamEnd if count(inflater.total_in()) == packed.len() => return Ok(()),
            Status::StreamEnd => return Err(Fault::Broken),
            // Nothing taken and nothing given: it was cut off.
            _ if len == 0 && count(inflater.total_in()) == taken => return Err(Fault::Broken),
            _ => {}
        }
    }
}

fn brotli(packed: &[u8], plain: &mut Plain) -> Result<(), Fault> {
    let alloc = StandardAlloc::default;
    // The strict state takes no window above 16 MiB.
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let (mut available_in, mut at, mut total) = (packed.len(), 0, 0);
    let mut piece = [0; PIECE];
    loop {
        let (mut available_out, mut len) = (PIECE, 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut at,
            packed,
            &mut available_out,
            &mut len,
            &mut piece,
            &mut total,
            &mut state,
        );
        plain.add(piece.get(..len).unwrap_or_default())?;
        match result {
            BrotliResult::ResultSuccess if at == packed.len() => return Ok(()),
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Err(Fault::Broken);
            }
        }
    }
}

/// One frame after the other; what is to be skipped is.
fn zstd(mut packed: &[u8], plain: &mut Plain) -> Result<(), Fault> {
    if packed.is_empty() {
        return Err(Fault::Broken);
    }
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW);
    let mut piece = [0; PIECE];
    while !packed.is_empty() {
        match decoder.reset(&mut packed) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let length = usize::try_from(length).map_err(|_| Fault::Broken)?;
                packed = packed.get(length..).ok_or(Fault::Broken)?;
                continue;
            }
            Err(_) => return Err(Fault::Broken),
        }
        loop {
            while decoder.can_collect() > 0 {
                let len = decoder.read(&mut piece).map_err(|_| Fault::Broken)?;
                plain.add(piece.get(..len).unwrap_or_default())?;
            }
            if decoder.is_finished() {
                break;
            }
            let upto = BlockDecodingStrategy::UptoBlocks(1);
            decoder.decode_blocks(&mut packed, upto).map_err(|_| Fault::Broken)?;
        }
        if let (Some(stated), Some(found)) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum())
            && stated != found
        {
            return Err(Fault::Broken);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;
