use super::*;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::HeaderValue;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;

/// What node's `zlib.brotliCompressSync` makes of [`CHAT`].
const BROTLI: &[u8] = &[
    0x1b, 0x5a, 0x00, 0x70, 0x9c, 0x07, 0x76, 0x0c, 0x99, 0x06, 0x4b, 0x0b, 0x38, 0xdd, 0x8b, 0x5a, 0x64, 0x6f, 0x0b,
    0x64, 0xa1, 0xb5, 0xb5, 0x0e, 0x4b, 0x57, 0xdf, 0x8a, 0x49, 0x03, 0x87, 0x9c, 0x08, 0xdc, 0xda, 0x92, 0x30, 0x81,
    0xd4, 0x6a, 0x82, 0x15, 0x98, 0x1c, 0xc4, 0x06, 0xc9, 0x58, 0x9e, 0x55, 0x68, 0x16, 0x39, 0xc1, 0x11, 0xdf, 0x01,
];
const CHAT: &str = r#"{"model":"m1","messages":[{"role":"user","content":"hi hi hi hi hi hi hi hi hi hi hi hi"}]}"#;

fn packed(coding: Coding, plain: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    match coding {
        Coding::Gzip => {
            let mut writer = GzEncoder::new(Vec::new(), level);
            writer.write_all(plain).unwrap();
            writer.finish().unwrap()
        }
        Coding::Deflate => {
            let mut writer = ZlibEncoder::new(Vec::new(), level);
            writer.write_all(plain).unwrap();
            writer.finish().unwrap()
        }
        Coding::Zstd => compress_to_vec(plain, CompressionLevel::Fastest),
        Coding::Brotli => stored(plain),
    }
}

/// A brotli stream of stored blocks: there is no encoder among our crates.
fn stored(plain: &[u8]) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    let put = |bits: &mut Vec<bool>, value: usize, count: usize| {
        bits.extend((0..count).map(|at| value >> at & 1 == 1));
    };
    put(&mut bits, 0, 1); // WBITS: 16
    for chunk in plain.chunks(65_536) {
        put(&mut bits, 0, 1); // ISLAST
        put(&mut bits, 0, 2); // MNIBBLES: 4
        put(&mut bits, chunk.len() - 1, 16);
        put(&mut bits, 1, 1); // ISUNCOMPRESSED
        while !bits.len().is_multiple_of(8) {
            bits.push(false);
        }
        for byte in chunk {
            put(&mut bits, usize::from(*byte), 8);
        }
    }
    put(&mut bits, 3, 2); // ISLAST, ISLASTEMPTY
    bits.chunks(8).map(|byte| byte.iter().enumerate().fold(0, |sum, (at, bit)| sum | u8::from(*bit) << at)).collect()
}

const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

fn code(result: Result<Bytes, Denial>) -> &'static str {
    result.map_or_else(|denial| denial.code.label(), |_| "unpacked")
}

#[test]
fn w1_known_codings_unpack_and_others_are_named() {
    assert_eq!(&*Coding::Brotli.unpack(BROTLI, 91).unwrap(), CHAT.as_bytes());
    assert_eq!(code(Coding::Brotli.unpack(BROTLI, 90)), "body_too_large");
    let of = |values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        Coding::of(&headers).map_err(|denial| denial.code)
    };
    for none in [&[][..], &["identity"], &[""], &["identity, Identity"]] {
        assert_eq!(of(none), Ok(None));
    }
    for (name, coding) in [
        ("gzip", Coding::Gzip),
        ("X-GZip", Coding::Gzip),
        ("deflate", Coding::Deflate),
        (" br", Coding::Brotli),
        ("ZSTD", Coding::Zstd),
    ] {
        assert_eq!(of(&[name]), Ok(Some(coding)));
    }
    for wrong in [&["compress"][..], &["gzip, gzip"], &["gzip", "br"], &["gzip;q=1"], &["dcb"]] {
        assert_eq!(of(wrong), Err(Code::UnsupportedEncoding), "{wrong:?}");
    }
}

#[test]
fn w1_deflate_comes_with_and_without_its_wrapping() {
    let mut writer = DeflateEncoder::new(Vec::new(), Compression::default());
    writer.write_all(b"plain plain plain").unwrap();
    assert_eq!(&*Coding::Deflate.unpack(&writer.finish().unwrap(), 100).unwrap(), b"plain plain plain");
}

#[test]
fn w1_a_bomb_costs_no_more_than_the_bound() {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..256 {
        writer.write_all(&[0; 1 << 18]).unwrap();
    }
    let gzip = writer.finish().unwrap();
    assert!(gzip.len() < 100_000);
    let mut plain = Plain { bytes: Vec::new(), limit: 100_000 };
    assert!(matches!(super::gzip(&gzip, &mut plain), Err(Fault::TooLarge)));
    assert!(plain.bytes.capacity() <= 100_000);
    let zeros = vec![0; 1 << 22];
    for coding in ALL {
        assert_eq!(code(coding.unpack(&packed(coding, &zeros), 1 << 20)), "body_too_large", "{coding:?}");
        assert_eq!(code(coding.unpack(&packed(coding, &zeros), 1 << 22)), "unpacked", "{coding:?}");
    }
    // A zstd frame that wants 2 GiB to look back on.
    let greedy = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    assert_eq!(code(Coding::Zstd.unpack(&greedy, 1 << 20)), "invalid_request");
}

#[test]
fn w1_members_and_frames_follow_one_another() {
    for coding in [Coding::Gzip, Coding::Zstd] {
        let both = [packed(coding, b"one "), packed(coding, b"two")].concat();
        assert_eq!(&*coding.unpack(&both, 100).unwrap(), b"one two");
        assert_eq!(code(coding.unpack(&both, 6)), "body_too_large");
    }
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &packed(Coding::Zstd, b"x")].concat();
    assert_eq!(&*Coding::Zstd.unpack(&skipped, 100).unwrap(), b"x");
}

proptest! {
    #[test]
    fn w1_any_body_comes_back_and_a_cut_one_does_not(
        plain in proptest::collection::vec(any::<u8>(), 0..5000),
        cut in 0.0..1.0_f64,
        more in 1..20_usize,
    ) {
        for coding in ALL {
            let whole = packed(coding, &plain);
            let limit = plain.len() as u64;
            let unpacked = coding.unpack(&whole, limit);
            prop_assert_eq!(unpacked.as_deref(), Ok(&*plain), "{:?}", coding);
            prop_assert!(plain.is_empty() || code(coding.unpack(&whole, limit - 1)) == "body_too_large");
            let short = &whole[..(whole.len() as f64 * cut) as usize];
            prop_assert_eq!(code(coding.unpack(short, limit)), "invalid_request", "{:?} cut", coding);
            let long = [&whole[..], &vec![7; more]].concat();
            prop_assert_eq!(code(coding.unpack(&long, limit)), "invalid_request", "{:?} too long", coding);
        }
    }

    #[test]
    fn w1_anything_is_unpacked_or_refused(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for coding in ALL {
            for magic in [&[][..], &[0x1f, 0x8b, 8, 0], &[0x78, 0x9c], &[0x28, 0xb5, 0x2f, 0xfd]] {
                if let Ok(plain) = coding.unpack(&[magic, &body].concat(), 10_000) {
                    prop_assert!(plain.len() <= 10_000);
                }
            }
        }
    }
}
