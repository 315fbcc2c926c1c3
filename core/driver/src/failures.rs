//! Why there is no answer, in the core's words.

use std::error::Error;
use std::io;

use appproxy_core::worker::TransportFailure;
use http_body_util::LengthLimitError;

use crate::dial::Unresolved;
use crate::lane::Broken;

/// What a failure means. The libraries say it somewhere in their chain of causes, each in its own type.
pub(crate) fn classify(error: &(dyn Error + 'static)) -> TransportFailure {
    let mut cause = Some(error);
    let mut last = String::new();
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return TransportFailure::TooLarge;
        }
        match error.downcast_ref::<Broken>() {
            Some(Broken::Malformed(_)) => return TransportFailure::NotHttp,
            Some(Broken::Closed) => return TransportFailure::Reset,
            _ => {}
        }
        if let Some(failure) = error.downcast_ref::<io::Error>().and_then(classify_io) {
            return failure;
        }
        last = error.to_string();
        cause = error.source();
    }
    TransportFailure::Other(last)
}

/// What an I/O error means for a call; `None` where it does not say.
pub fn classify_io(error: &io::Error) -> Option<TransportFailure> {
    if let Some(inner) = error.get_ref() {
        if inner.is::<Unresolved>() {
            return Some(TransportFailure::Unresolved);
        }
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return Some(TransportFailure::Tls(tls.to_string()));
        }
        // An I/O error around another one hides it from its own chain of causes.
        if let Some(failure) = inner.downcast_ref::<io::Error>().and_then(classify_io) {
            return Some(failure);
        }
    }
    TransportFailure::of_io(error.kind())
}
