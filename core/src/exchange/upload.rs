//! A request's body that goes to the replica as it comes (data-plane 2, 3).

use super::collect::BodyBounds;
use super::denial::Denial;
use super::uploading::Uploading;
use crate::time::Moment;

/// What an upload is bounded by while it passes: its size, its silences, its least rate. None of it is kept.
#[derive(Debug)]
pub struct Upload {
    limit: u64,
    bytes: u64,
    uploading: Uploading,
}

impl Upload {
    /// An upload of at most `limit` bytes, from now on.
    #[must_use]
    pub const fn new(limit: u64, bounds: &BodyBounds, now: Moment) -> Self {
        Self { limit, bytes: 0, uploading: Uploading::begun(now, bounds.silence()) }
    }

    /// When the next piece must have come at the latest. Past it: [`Denial::body_too_slow`].
    #[must_use]
    pub fn due(&self) -> Moment {
        self.uploading.due()
    }

    /// A piece of so many bytes goes on.
    ///
    /// # Errors
    /// `body_too_large` past the limit.
    pub fn pass(&mut self, piece: usize, now: Moment) -> Result<(), Denial> {
        self.uploading.came(piece, now);
        self.bytes = self.bytes.saturating_add(u64::try_from(piece).unwrap_or(u64::MAX));
        if self.bytes > self.limit { Err(Denial::body_too_large(self.limit)) } else { Ok(()) }
    }

    /// The replica took nothing for a while, and the client is not to blame: its time runs from now on.
    pub fn held_up(&mut self, now: Moment) {
        self.uploading.held_up(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Code;
    use core::time::Duration;

    #[test]
    fn it_ends_one_byte_past_its_limit_or_in_silence() {
        let bounds = BodyBounds::new(1 << 20, Duration::from_secs(5));
        let mut upload = Upload::new(10, &bounds, Moment::START);
        upload.pass(4, Moment::from_millis(3000)).expect("within the limit");
        assert_eq!(upload.due(), Moment::from_millis(8000));
        upload.pass(6, Moment::from_millis(4000)).expect("at the limit");
        assert_eq!(upload.pass(1, Moment::from_millis(4000)).err().map(|denial| denial.code), Some(Code::BodyTooLarge));
    }

    #[test]
    fn a_replica_that_takes_its_time_is_not_the_clients_fault() {
        let bounds = BodyBounds::new(1 << 20, Duration::from_secs(5));
        let mut upload = Upload::new(10, &bounds, Moment::START);
        upload.held_up(Moment::from_millis(600_000));
        assert_eq!(upload.due(), Moment::from_millis(605_000));
    }
}
