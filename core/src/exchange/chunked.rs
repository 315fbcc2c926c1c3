//! Follows a chunked body to its end (RFC 9112, 7.1), as leniently as the HTTP library that reads it.

/// Where in a chunked body the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Chunked {
    /// At the first digit of a size.
    #[default]
    SizeStart,
    /// In a size.
    Size(u64),
    /// White space behind it.
    SizeSpace(u64),
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// After the last chunk: at the start of a trailer line, or of the empty one.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
}

impl Chunked {
    /// Whether the next bytes are the body's own.
    pub(super) const fn in_data(self) -> bool {
        matches!(self, Self::Data(_))
    }

    /// Takes in some of `rest`, which is not empty: how much, and whether the body ended with it. `None`: it is malformed.
    pub(super) fn see(&mut self, rest: &[u8]) -> Option<(usize, bool)> {
        let byte = *rest.first()?;
        let mut taken = 1;
        *self = match (*self, byte) {
            (Self::Data(left), _) => {
                taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                match left.saturating_sub(taken as u64) {
                    0 => Self::DataCr,
                    left => Self::Data(left),
                }
            }
            (Self::SizeStart, byte) => Self::Size(digit(byte)?),
            (Self::Size(size) | Self::SizeSpace(size), b' ' | b'\t') => Self::SizeSpace(size),
            (Self::Size(size) | Self::SizeSpace(size), b';') => Self::Extension(size),
            (Self::Size(size) | Self::SizeSpace(size) | Self::Extension(size), b'\r') => Self::SizeLf(size),
            (Self::Size(size), byte) => Self::Size(size.checked_mul(16)?.checked_add(digit(byte)?)?),
            (Self::Extension(_), b'\n') => return None,
            (Self::Extension(size), _) => Self::Extension(size),
            (Self::SizeLf(0), b'\n') => Self::TrailerStart,
            (Self::SizeLf(size), b'\n') => Self::Data(size),
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::SizeStart,
            (Self::TrailerStart, b'\r') => Self::EndLf,
            (Self::TrailerStart | Self::Trailer, byte) => match byte {
                b'\r' => Self::TrailerLf,
                _ => Self::Trailer,
            },
            (Self::TrailerLf, b'\n') => Self::TrailerStart,
            (Self::EndLf, b'\n') => return Some((1, true)),
            _ => return None,
        };
        Some((taken, false))
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}
