//! The two clocks of this process, as the core wants them.

use core::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use appproxy_core::time::{Moment, Now, UnixMillis};

/// A monotonic clock that starts at zero, and the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that begins now.
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// Both clocks, read together. A wall clock before 1970 reads as 1970.
    #[must_use]
    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { moment: self.moment(), wall: UnixMillis(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)) }
    }

    /// The monotonic clock alone.
    #[must_use]
    pub(crate) fn moment(&self) -> Moment {
        Moment::from_millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The instant to sleep until for `moment`; a moment past the end of time is a day away.
    #[must_use]
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.began
            .checked_add(Duration::from_millis(moment.as_millis()))
            .unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))
    }
}
