//! Revocation of a member under KIP-848 (contract 2). Only afterwards does it acknowledge its target.

use super::member::Member;
use crate::group::{Committing, Output, Parts, Revocation, Step};

impl Member {
    /// Ends the revocation once the user's own commits, including those of the callback, have ended. They use another
    /// connection than the heartbeat, which might overtake them (req S150). A commit that timed out but is still in
    /// flight has to end too: its epoch may still be valid when it arrives, and it would overwrite what the next owner
    /// has committed by then.
    pub(super) fn advance_revocation(&mut self) {
        let draining = self.revocation.as_ref().filter(|it| it.step() == Step::Draining);
        let is_over = |it: &Revocation| !self.commits.touch(it.partitions()) && !self.commits.carry(it.partitions());
        if draining.is_some_and(is_over) {
            self.end_revocation();
        }
    }
}

impl Committing for Member {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            commits: &mut self.commits,
            revocation: &mut self.revocation,
            owned: &self.owned,
            out: &mut self.out,
            auto_commit_interval: self.config.auto_commit_interval,
            session_timeout: self.config.session_timeout,
            revocation_commit_timeout: self.config.revocation_commit_timeout(),
        }
    }

    fn is_member(&self) -> bool {
        self.epoch > 0
    }

    fn end_revocation(&mut self) {
        let Some(partitions) = self.take_revoked() else { return };
        self.release(&partitions);
        self.out.push(Output::Released { partitions, are_lost: false });
    }
}
