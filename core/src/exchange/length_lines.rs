//! The header lines that say how long a request's body is (RFC 9112, 6).

/// How a body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framed {
    /// So many bytes; 0 when nothing was said.
    Length(u64),
    Chunked,
}

/// What is wrong with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// A length beside a transfer coding.
    Both,
    Length,
    Coding,
    OldVersion,
    /// Chunked, and packed before that.
    Packed,
}

/// Transfer codings that a sender may honestly use.
const PACKINGS: [&[u8]; 8] = [b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress", b"br", b"zstd", b"identity"];

const NAMES: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];

/// Longer values of these two headers are not understood.
const VALUE_BYTES: usize = 64;

/// Collects the lines of one head.
#[derive(Debug)]
pub(super) struct LengthLines {
    /// The request says HTTP/1.0.
    pub(super) old_version: bool,
    length: Option<u64>,
    coded: bool,
    chunked: bool,
    packed: bool,
    /// Bytes of the running name.
    name: usize,
    /// Which of [`NAMES`] the running name may still be.
    fits: [bool; 2],
    value: [u8; VALUE_BYTES],
    value_len: usize,
}

impl Default for LengthLines {
    fn default() -> Self {
        Self {
            old_version: false,
            length: None,
            coded: false,
            chunked: false,
            packed: false,
            name: 0,
            fits: [true; 2],
            value: [0; VALUE_BYTES],
            value_len: 0,
        }
    }
}

impl LengthLines {
    pub(super) const fn begin(&mut self) {
        (self.name, self.value_len, self.fits) = (0, 0, [true; 2]);
    }

    /// Whether the running line has a name.
    pub(super) const fn named(&self) -> bool {
        self.name > 0
    }

    /// A piece of the running line's name.
    pub(super) fn name(&mut self, piece: &[u8]) {
        for (fits, name) in self.fits.iter_mut().zip(NAMES) {
            let here = name.get(self.name..).unwrap_or_default();
            *fits = *fits && here.get(..piece.len()).is_some_and(|here| here.eq_ignore_ascii_case(piece));
        }
        self.name += piece.len();
    }

    fn is(&self, which: usize) -> bool {
        self.fits.get(which) == Some(&true) && NAMES.get(which).is_some_and(|name| name.len() == self.name)
    }

    /// A piece of its value.
    pub(super) fn value(&mut self, piece: &[u8]) {
        if !self.is(0) && !self.is(1) {
            return;
        }
        for byte in piece {
            // White space in front is none of it.
            if self.value_len == 0 && matches!(byte, b' ' | b'\t') {
                continue;
            }
            match self.value.get_mut(self.value_len) {
                Some(place) => *place = *byte,
                None => {
                    // Too long to be anything we know, which a lone comma is not either.
                    self.value = [b','; VALUE_BYTES];
                    return;
                }
            }
            self.value_len += 1;
        }
    }

    /// The line is over.
    pub(super) fn end(&mut self) -> Result<(), Line> {
        let value = self.value.get(..self.value_len).unwrap_or_default().trim_ascii_end();
        if self.is(0) {
            let length = number(value).ok_or(Line::Length)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(Line::Length);
            }
        } else if self.is(1) {
            self.coded = true;
            for coding in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                // `chunked` comes last, and once.
                if self.chunked {
                    return Err(Line::Coding);
                }
                if coding.eq_ignore_ascii_case(b"chunked") {
                    self.chunked = true;
                } else if PACKINGS.iter().any(|known| coding.eq_ignore_ascii_case(known)) {
                    self.packed = true;
                } else {
                    return Err(Line::Coding);
                }
            }
        }
        Ok(())
    }

    /// What all of them come to.
    pub(super) const fn framed(&self) -> Result<Framed, Line> {
        match (self.coded, self.length) {
            (true, Some(_)) => Err(Line::Both),
            (true, None) if self.old_version => Err(Line::OldVersion),
            (true, None) if !self.chunked => Err(Line::Coding),
            (true, None) if self.packed => Err(Line::Packed),
            (true, None) => Ok(Framed::Chunked),
            (false, Some(length)) => Ok(Framed::Length(length)),
            (false, None) => Ok(Framed::Length(0)),
        }
    }
}

/// Digits only: no sign, no list.
fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
