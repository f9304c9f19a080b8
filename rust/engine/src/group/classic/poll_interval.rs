//! `max.poll.interval.ms` of a classic member (contract 6): a member whose user does not poll leaves the group, and
//! joins again at the next poll.

use super::member::ClassicMember;
use crate::Now;
use crate::group::error::GroupError;
use crate::group::messages::Output;
use crate::group::state::ClassicState;

impl ClassicMember {
    pub(in crate::group) fn polled(&mut self, at: Now) {
        self.base.user_polls.polled(at);
        if self.state == ClassicState::Stale && self.base.user_polls.is_polled_again() {
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
            // A member does not join while the user does not poll: it would be assigned partitions that nobody reads.
            ClassicState::Unjoined => self.topics.subscribed,
            _ => false,
        };
        self.base.watch_polls(watched);
    }

    pub(super) fn poll_expired(&mut self, now: Now) {
        let (group, after) = (self.base.config.group_id.clone(), self.base.config.max_poll_interval);
        // A member that is not in the group has nothing to leave, so there is no error.
        if self.state != ClassicState::Unjoined {
            self.base.out.push(Output::Raise { error: GroupError::MaxPollExceeded { group, after }, fatal: false });
        }
        let reason = "the user did not poll for max.poll.interval.ms".to_owned();
        self.lose(None, &reason);
        self.send_leave(&reason, now);
        self.forget_member();
        (self.join.reason, self.join.rebalance) = (None, None);
        self.base.user_polls.expire(now);
        self.set_state(ClassicState::Stale);
    }
}
