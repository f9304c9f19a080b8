//! `max.poll.interval.ms` of a member under KIP-848 (contract 6): a member whose user does not poll leaves the group,
//! and joins again at the next poll.

use super::member::ConsumerMember;
use crate::Now;
use crate::group::error::GroupError;
use crate::group::messages::Output;
use crate::group::outbox::Timer;
use crate::group::state::ConsumerState;

impl ConsumerMember {
    pub(in crate::group) fn polled(&mut self, at: Now) {
        self.base.user_polls.polled(at);
        self.keep_poll_timer();
    }

    pub(super) fn keep_poll_timer(&mut self) {
        // A member does not join while the user does not poll: it would be assigned partitions that nobody reads.
        let watched = matches!(
            self.state,
            ConsumerState::Joining | ConsumerState::Reconciling | ConsumerState::Acknowledging | ConsumerState::Stable
        );
        self.base.watch_polls(watched);
    }

    /// The user does not poll, so other members have to take over its partitions. They are assigned to others at once,
    /// so records that the user still holds are lost to it: they cannot be committed.
    pub(super) fn poll_expired(&mut self, now: Now) {
        let (group, after) = (self.base.config.group_id.clone(), self.base.config.max_poll_interval);
        let known = self.may_be_known();
        // A member that is not in the group has nothing to leave, so there is no error.
        if self.epoch > 0 {
            let error = GroupError::MaxPollExceeded { group, after };
            self.base.out.push(Output::Raise { error, fatal: false });
        }
        self.base.user_polls.expire(now);
        self.set_state(ConsumerState::PrepareLeaving);
        self.lose(None, "the user did not poll for max.poll.interval.ms");
        self.set_state(ConsumerState::Leaving);
        self.base.out.timers.clear(Timer::HeartbeatBackoff);
        if known && self.base.coordinator.node_id().is_some() {
            self.send_leave(now);
        } else {
            self.may_have_place |= known;
            self.set_state(ConsumerState::Stale);
        }
    }
}
