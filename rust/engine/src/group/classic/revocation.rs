//! Revocation of a classic member (contract 2). Afterwards it joins or leaves; if the assignor defers, it may join
//! before the revocation ends.

use std::collections::BTreeSet;
use std::time::Duration;

use super::member::ClassicMember;
use crate::TopicPartition;
use crate::group::base::{Committing, MemberBase, Revocation, RevocationStep};
use crate::group::messages::{Output, Scope};
use crate::group::state::ClassicState;

/// The step that follows a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterRevocation {
    Join,
    /// The member joins, even before its revocation ends, because the group already rebalances.
    JoinMeanwhile,
    Leave,
}

impl ClassicMember {
    /// The partitions being revoked, if a join follows.
    pub(super) fn revoked_before_join(&self) -> Option<&BTreeSet<TopicPartition>> {
        let partitions =
            self.base.revocation.as_ref().filter(|_| self.then != AfterRevocation::Leave).map(Revocation::partitions);
        partitions.filter(|partitions| !partitions.is_empty())
    }

    /// Begins to revoke these partitions. If there are none, it only commits the finished offsets.
    pub(super) fn revoke(&mut self, partitions: BTreeSet<TopicPartition>, then: AfterRevocation) {
        self.then = then;
        if !partitions.is_empty() {
            self.set_state(ClassicState::Revoking);
            return self.base.begin_revocation(partitions);
        }
        let ticket = self.base.out.new_id();
        self.base.out.push(Output::CollectFinished { ticket, scope: Scope::All });
        self.base.revocation = Some(Revocation::new(ticket, partitions));
    }

    /// Ends the revocation once the user's own commits, including those of the callback, have ended. They use another
    /// connection than JoinGroup, which might overtake them (req S150).
    pub(super) fn advance_revocation(&mut self) {
        let draining = self.base.revocation.as_ref().filter(|it| it.step() == RevocationStep::Draining);
        if draining.is_some_and(|it| !self.base.commits.touch(it.partitions())) {
            self.end_revocation();
        }
    }
}

impl Committing for ClassicMember {
    fn base(&mut self) -> &mut MemberBase {
        &mut self.base
    }

    fn is_member(&self) -> bool {
        self.generation >= 0
    }

    fn revocation_commit_timeout(&self) -> Duration {
        // A third of the interval is left for the join. A commit that arrives after that is of an old generation and is
        // refused.
        (self.base.config.max_poll_interval / 3).min(Duration::from_secs(30))
    }

    fn end_revocation(&mut self) {
        let Some(partitions) = self.base.take_revoked() else { return };
        if !partitions.is_empty() {
            self.base.release(&partitions);
            self.base.out.push(Output::Released { partitions, are_lost: false });
        }
        if self.state == ClassicState::Revoking {
            self.set_state(ClassicState::Stable);
        }
        if self.then != AfterRevocation::Leave {
            self.join.prepared = true;
            self.want_rejoin("partitions were released".into());
        }
    }
}
