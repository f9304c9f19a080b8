//! The lease of a member under KIP-848: how long its partitions certainly belong to it (contract 7).

use super::member::ConsumerMember;
use crate::Now;
use crate::group::outbox::Timer;

impl ConsumerMember {
    /// An answer proves that the member was in the group when the coordinator processed the request, so not before
    /// `sent`. Even a late answer shows that the coordinator is alive.
    pub(super) fn confirm(&mut self, sent: Now, now: Now) {
        let confirmed = self.base.lease.confirm(sent);
        let since = if now < confirmed + self.base.config.session_timeout { confirmed } else { now };
        self.base.out.timers.set(Timer::Session, since + self.base.config.session_timeout);
    }

    /// Sets the deadline of a revocation that a new target requires. The coordinator removes a member that has not
    /// revoked the partitions when the rebalance timeout ends, and then it loses the others too, even though its
    /// heartbeats are answered. The coordinator's time may have begun with any request since the last good answer.
    pub(super) fn watch_revocation(&mut self, confirmed_before: Now) {
        let Some(target) = &self.reconciliation.target else { return };
        if !self.owned_by_id().is_subset(target) {
            self.revoke_by.get_or_insert(confirmed_before + self.base.config.max_poll_interval);
        }
    }

    /// Until when a member that was in the group at `confirmed` is not removed if it sends nothing. A target that it
    /// does not know of may have revoked partitions right after.
    fn silent_until(&self, confirmed: Now) -> Now {
        confirmed + self.base.config.session_timeout.min(self.base.config.max_poll_interval)
    }

    /// Tells whether the last good answer still proves that the member is in the group.
    pub(super) fn is_proven(&self, now: Now) -> bool {
        let until = self.base.lease.confirmed().map(|confirmed| self.silent_until(confirmed));
        until.is_some_and(|until| now < until.saturating_sub(self.base.config.lease_margin()))
    }

    /// Updates until when records may be handed out.
    pub(super) fn advance_lease(&mut self, now: Now) {
        let until = match self.base.lease.confirmed() {
            _ if self.base.owned.is_empty() => None,
            Some(confirmed) => {
                let silent = self.silent_until(confirmed);
                let end = self.revoke_by.map_or(silent, |revoke_by| revoke_by.min(silent));
                Some(end.saturating_sub(self.base.config.lease_margin()))
            }
            None => Some(Now::ZERO),
        };
        self.base.lease.set(until, &mut self.base.out, now);
    }
}
