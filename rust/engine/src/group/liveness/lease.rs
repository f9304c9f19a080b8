//! The lease: until when the coordinator cannot have assigned a member's partitions to another member (contract 7).

use crate::Now;
use crate::group::messages::{GroupEvent, Output};
use crate::group::outbox::{Outbox, Timer};

/// The lease of a member: until when records may be handed out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    /// The time when the latest request was sent whose answer proved that the member was in the group.
    confirmed: Option<Now>,
    until: Option<Now>,
    has_expired: bool,
}

impl Lease {
    pub(crate) fn confirmed(&self) -> Option<Now> {
        self.confirmed
    }

    /// Takes the proof that the member was in the group when the coordinator processed a request, so not before `sent`.
    /// Returns the latest such time.
    pub(crate) fn confirm(&mut self, sent: Now) -> Now {
        *self.confirmed.insert(self.confirmed.map_or(sent, |known| known.max(sent)))
    }

    /// Discards the proof: the member is not in the group any more.
    pub(crate) fn unconfirm(&mut self) {
        self.confirmed = None;
    }

    /// Until when records may be handed out; `None` while nothing is leased.
    pub(crate) fn until(&self) -> Option<Now> {
        self.until
    }

    /// Tells whether no other member can own these partitions yet. Also true while nothing is leased.
    pub(crate) fn holds(&self, now: Now) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Sets until when records may be handed out. Emits outputs if that changed. `None` at the end of a membership: a
    /// user who assigns partitions manually afterwards reads without a lease.
    pub(crate) fn set(&mut self, until: Option<Now>, out: &mut Outbox, now: Now) {
        if until == self.until {
            return;
        }
        self.until = until;
        out.push(Output::Lease { until });
        out.timers.put(Timer::Lease, until.filter(|&until| until > now));
        if self.has_expired && until.is_none_or(|until| until > now) {
            self.has_expired = false;
            out.event(GroupEvent::LeaseRenewed);
        }
    }

    /// The lease ran out while the member owns partitions.
    pub(crate) fn expire(&mut self, out: &mut Outbox) {
        self.has_expired = true;
        out.event(GroupEvent::LeaseExpired);
    }
}
