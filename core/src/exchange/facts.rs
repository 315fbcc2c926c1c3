//! What a request's head says that decides about it, found in one look at its lines.

use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING,
};

use super::headers::X_REQUEST_ID;

/// How many lines there are of those that count, and what the length is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The first `Content-Length`, as it can be read.
    pub(super) length: Option<u64>,
    lengths: usize,
    /// Two lengths are not written alike.
    pub(super) lengths_differ: bool,
    /// There is a `Transfer-Encoding`.
    pub(super) coded: bool,
    pub(super) hosts: usize,
    pub(super) request_ids: usize,
    /// There is a `Content-Encoding`.
    pub(super) packed: bool,
    /// The body may be a form.
    pub(super) may_be_form: bool,
    /// There is a `Connection`.
    pub(super) options: bool,
}

impl Facts {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut facts = Self::default();
        let mut length: Option<&HeaderValue> = None;
        for (name, value) in headers {
            if *name == HOST {
                facts.hosts += 1;
            } else if *name == CONTENT_LENGTH {
                facts.lengths += 1;
                facts.lengths_differ |= *length.get_or_insert(value) != value;
            } else if *name == CONTENT_TYPE {
                facts.may_be_form |= matches!(value.as_bytes().trim_ascii_start(), [b'm' | b'M', ..]);
            } else if *name == CONNECTION {
                facts.options = true;
            } else if *name == TRANSFER_ENCODING {
                facts.coded = true;
            } else if *name == CONTENT_ENCODING {
                facts.packed = true;
            } else if *name == X_REQUEST_ID {
                facts.request_ids += 1;
            }
        }
        facts.length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        facts
    }

    /// Whether a length is stated.
    pub(super) const fn states_length(&self) -> bool {
        self.lengths > 0
    }
}
