//! `max.poll.interval.ms` of a classic member (contract 6): a member whose user does not poll leaves the group, and joins
//! again at the next poll.

use super::ClassicState;
use super::member::Member;
use crate::Now;
use crate::group::{GroupError, Output, Timer};

impl Member {
    /// Records when the user last polled: the current time while a poll waits. Call [`Self::handle`] right after it,
    /// which does the work that follows from it.
    pub fn polled(&mut self, at: Now) {
        self.poll_interval.polled(at);
        if self.state == ClassicState::Stale && self.poll_interval.is_polled_again() {
            self.set_state(ClassicState::Unjoined);
            self.want_rejoin("the user polls again".into());
        }
        self.keep_poll_timer();
    }

    pub(super) fn keep_poll_timer(&mut self) {
        let watched = match self.state {
            ClassicState::PreparingRebalance
            | ClassicState::CompletingRebalance
            | ClassicState::Stable
            | ClassicState::Revoking => true,
            // Nor does a member join while the user does not poll: it would be assigned partitions that nobody reads.
            ClassicState::Unjoined => self.topics.subscribed,
            _ => false,
        };
        // Leaving has its own deadline.
        let watched = watched && self.leave.exit.is_none();
        self.out.timers.put(Timer::Poll, watched.then(|| self.poll_interval.due(self.config.max_poll_interval)));
    }

    pub(super) fn poll_expired(&mut self, now: Now) {
        let (group, after) = (self.config.group_id.clone(), self.config.max_poll_interval);
        // A member that is not in the group has nothing to leave, so there is no error.
        if self.state != ClassicState::Unjoined {
            self.out.push(Output::Raise { error: GroupError::MaxPollExceeded { group, after }, fatal: false });
        }
        let reason = "the user did not poll for max.poll.interval.ms".to_owned();
        self.lose(None, &reason);
        self.send_leave(&reason, now);
        self.forget_member();
        (self.join.reason, self.join.rebalance) = (None, None);
        self.poll_interval.expire(now);
        self.set_state(ClassicState::Stale);
    }
}
