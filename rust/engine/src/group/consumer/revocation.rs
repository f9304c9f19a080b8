//! Revocation of a member under KIP-848 (contract 2). Only afterwards does it acknowledge its target.

use std::time::Duration;

use super::member::ConsumerMember;
use crate::group::base::{Committing, MemberBase, Revocation, RevocationStep};
use crate::group::messages::Output;

impl ConsumerMember {
    /// Ends the revocation once the user's own commits, including those of the callback, have ended. They use another
    /// connection than the heartbeat, which might overtake them (req S150). A commit that timed out but is still in
    /// flight has to end too: its epoch may still be valid when it arrives, and it would overwrite what the next owner
    /// has committed by then.
    pub(super) fn advance_revocation(&mut self) {
        let draining = self.base.revocation.as_ref().filter(|it| it.step() == RevocationStep::Draining);
        let is_over =
            |it: &Revocation| !self.base.commits.touch(it.partitions()) && !self.base.commits.carry(it.partitions());
        if draining.is_some_and(is_over) {
            self.end_revocation();
        }
    }
}

impl Committing for ConsumerMember {
    fn base(&mut self) -> &mut MemberBase {
        &mut self.base
    }

    fn is_member(&self) -> bool {
        self.epoch > 0
    }

    fn revocation_commit_timeout(&self) -> Duration {
        // Both waits together may last as long as the coordinator waits for the acknowledgement: were they shorter, a
        // commit that arrives after an early acknowledgement could overwrite what the next owner committed.
        (self.base.config.max_poll_interval / 2).min(Duration::from_secs(30))
    }

    fn end_revocation(&mut self) {
        let Some(partitions) = self.base.take_revoked() else { return };
        self.base.release(&partitions);
        self.base.out.push(Output::Released { partitions, are_lost: false });
    }
}
