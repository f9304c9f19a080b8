//! The lease: until when the coordinator cannot have given a member's partitions to another (contract 7).

use super::outbox::Outbox;
use super::timers::Timer;
use super::{GroupEvent, Output};
use crate::Now;

/// Until when records may be handed out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    /// When the last request was sent whose answer proved that the member is in the group.
    confirmed: Option<Now>,
    until: Option<Now>,
    has_expired: bool,
}

impl Lease {
    /// When the last request was sent whose answer proved that the member is in the group.
    pub(crate) fn confirmed(&self) -> Option<Now> {
        self.confirmed
    }

    /// A request that was sent at `sent` proved that the member was in the group when the coordinator took it, so not before `sent`.
    /// Returns the latest such time.
    pub(crate) fn confirm(&mut self, sent: Now) -> Now {
        *self.confirmed.insert(self.confirmed.map_or(sent, |known| known.max(sent)))
    }

    /// The member is out of the group.
    pub(crate) fn unconfirm(&mut self) {
        self.confirmed = None;
    }

    /// Until when records may be handed out; `None` while nothing is leased.
    pub(crate) fn until(&self) -> Option<Now> {
        self.until
    }

    /// Whether what is owned is owned for certain.
    pub(crate) fn holds(&self, now: Now) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Sets until when records may be handed out, and says so if that changed.
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

    /// Its time is over, and partitions are owned.
    pub(crate) fn expire(&mut self, out: &mut Outbox) {
        self.has_expired = true;
        out.event(GroupEvent::LeaseExpired);
    }
}
