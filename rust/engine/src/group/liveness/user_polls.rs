//! `max.poll.interval.ms`: when the user last polled, and since when a member is stale (contract 6).

use std::time::Duration;

use crate::Now;

/// The polls of the user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserPolls {
    last_poll: Now,
    /// The time when the member left because its user did not poll.
    stale_since: Now,
}

impl UserPolls {
    pub(crate) fn polled(&mut self, at: Now) {
        self.last_poll = self.last_poll.max(at);
    }

    /// The time when the next poll is overdue.
    pub(crate) fn due(&self, max_poll_interval: Duration) -> Now {
        self.last_poll + max_poll_interval
    }

    /// The user did not poll in time.
    pub(crate) fn expire(&mut self, now: Now) {
        self.stale_since = now;
    }

    /// Tells whether the user has polled since the member became stale.
    pub(crate) fn is_polled_again(&self) -> bool {
        self.last_poll > self.stale_since
    }
}
