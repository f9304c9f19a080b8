//! The lease: how long what is owned is owned for certain (contract 7).

use super::member::Member;
use super::timers::Timer;
use crate::Now;
use crate::group::{GroupEvent, Output};

impl Member {
    /// An answer proves that the member was in the group when the coordinator took the request, so not before `sent`. Late as
    /// it may be, the coordinator is there.
    pub(super) fn confirm(&mut self, sent: Now, now: Now) {
        let confirmed = self.confirmed.map_or(sent, |known| known.max(sent));
        self.confirmed = Some(confirmed);
        let since = if now < confirmed + self.config.session_timeout { confirmed } else { now };
        self.timers.set(Timer::Session, since + self.config.session_timeout);
    }

    /// A target takes partitions away: whoever has not given them back at the end of the rebalance timeout is thrown out, and
    /// loses what it keeps as well, though its heartbeats are answered. The coordinator's time may have begun with any request
    /// since the last good answer.
    pub(super) fn watch_revocation(&mut self, confirmed_before: Now) {
        let Some(target) = &self.target else { return };
        if !self.owned_by_id().is_subset(target) {
            self.revoke_by.get_or_insert(confirmed_before + self.config.max_poll_interval);
        }
    }

    /// Until when a member that was in the group at `confirmed` is not thrown out for its silence. A target may have taken partitions
    /// away right after, of which it has not heard.
    fn silent_until(&self, confirmed: Now) -> Now {
        confirmed + self.config.session_timeout.min(self.config.max_poll_interval)
    }

    /// Whether the last good answer still says that the member is in the group.
    pub(super) fn is_proven(&self, now: Now) -> bool {
        let until = self.confirmed.map(|confirmed| self.silent_until(confirmed));
        until.is_some_and(|until| now < until.saturating_sub(self.config.lease_margin()))
    }

    /// Says until when records may be handed out, where that changed.
    pub(super) fn advance_lease(&mut self, now: Now) {
        let until = match self.confirmed {
            _ if self.owned.is_empty() => None,
            Some(confirmed) => {
                let silent = self.silent_until(confirmed);
                let end = self.revoke_by.map_or(silent, |revoke_by| revoke_by.min(silent));
                Some(end.saturating_sub(self.config.lease_margin()))
            }
            None => Some(Now::ZERO),
        };
        self.say_lease(until, now);
    }

    /// Nothing is leased any more. To be said before the end of the membership: who assigns partitions by hand afterwards reads
    /// without a lease.
    pub(super) fn end_lease(&mut self, now: Now) {
        self.say_lease(None, now);
    }

    fn say_lease(&mut self, until: Option<Now>, now: Now) {
        if until == self.lease {
            return;
        }
        self.lease = until;
        self.push(Output::Lease { until });
        self.timers.put(Timer::Lease, until.filter(|&until| until > now));
        if self.lease_expired && until.is_none_or(|until| until > now) {
            self.lease_expired = false;
            self.event(GroupEvent::LeaseRenewed);
        }
    }

    pub(super) fn lease_over(&mut self) {
        if !self.owned.is_empty() {
            self.lease_expired = true;
            self.event(GroupEvent::LeaseExpired);
        }
    }

    /// Whether what is owned is owned for certain.
    pub(super) fn lease_holds(&self, now: Now) -> bool {
        self.lease.is_none_or(|until| now < until)
    }
}
