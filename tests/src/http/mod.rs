//! A small blocking HTTP/1.1 client which shows what was really on the wire.
//!
//! It keeps header order and case, tells a body that was cut off from one that ended, hands out an answer piece by
//! piece as it arrives, and sends any bytes one likes. No redirects, no pooling, no TLS.

mod answer;
mod connection;
mod request;
mod wire;

pub use answer::{Answer, Head, ServerSentEvent};
pub use connection::Connection;
pub use request::Request;

#[cfg(test)]
mod tests;
