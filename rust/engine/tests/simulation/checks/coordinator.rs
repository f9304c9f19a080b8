//! The coordinator's side: what it took, gave and forgot.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::group as classic;
use monedula_protocol::error_code::ErrorCode;

use super::{Checks, Pid, Rule, View};
use crate::machine::State;
use crate::messages::{Answer, Call};
use crate::sometimes::Situation;

impl Checks {
    /// The coordinator answered `call` of a process. `late`: its sender has given it up.
    pub(crate) fn served(&mut self, pid: Pid, call: &Call, answer: &Answer, late: bool) {
        if let (Some((_, offsets)), Some(codes)) = (call.commit(), answer.commit_codes()) {
            for (partition, at) in offsets {
                match codes.get(partition) {
                    Some(ErrorCode::None) => {
                        let owned = self.views.get(&pid).and_then(|view| view.owned.get(partition));
                        let unaccounted = owned.is_some_and(|owned| owned.unaccounted);
                        self.commit_accepted(partition, at.offset, late || unaccounted);
                    }
                    Some(ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId) => {
                        self.met.met(Situation::FencedCommit)
                    }
                    Some(ErrorCode::StaleMemberEpoch) => self.met.met(Situation::StaleCommit),
                    Some(ErrorCode::RebalanceInProgress) => self.met.met(Situation::CommitDuringRebalance),
                    _ => {}
                }
            }
        }
        if let (Call::Classic(call), Answer::Classic(classic::Answer::Sync { code: ErrorCode::None, assignment, .. })) =
            (call, answer)
        {
            self.synced(call, assignment);
        }
    }

    /// What was committed of a topic that is no more is gone with it.
    pub(crate) fn forget_committed(&mut self, topic: &Arc<str>) {
        let of = |partition: &TopicPartition| partition.topic == *topic;
        self.committed.retain(|partition, _| !of(partition));
        self.excused.retain(|partition| !of(partition));
        self.overwritten.retain(|partition| !of(partition));
        for (_, owned) in self.views.values_mut().flat_map(|view| &mut view.owned).filter(|(owned, _)| of(owned)) {
            owned.gone = true;
            self.met.met(Situation::OwnedOfGone);
        }
    }

    /// Whether it is owned of a topic that is no more.
    pub(crate) fn is_gone(&self, pid: Pid, partition: &TopicPartition) -> bool {
        self.views.get(&pid).and_then(|view| view.owned.get(partition)).is_some_and(|owned| owned.gone)
    }

    /// Whether the coordinator ever took this offset.
    pub(crate) fn was_committed(&self, partition: &TopicPartition, offset: i64) -> bool {
        self.accepted.contains(&(partition.clone(), offset))
    }

    fn commit_accepted(&mut self, partition: &TopicPartition, offset: i64, late: bool) {
        let uncovered = self.uncovered(partition);
        if offset > uncovered {
            let text = format!("{partition}: {offset} is committed, but {uncovered} was not finished");
            self.fail(Rule::CommittedUnfinished, text);
        }
        let before = self.committed.insert(partition.clone(), offset);
        self.accepted.insert((partition.clone(), offset));
        match late {
            true => {
                self.excused.insert(partition.clone());
                self.overwritten.insert(partition.clone());
            }
            false => {
                self.overwritten.remove(partition);
            }
        }
        if before.is_some_and(|before| offset < before) && !self.excused.contains(partition) {
            let text = format!("{partition}: {offset} is committed over {before:?}, and nobody went back");
            self.fail(Rule::CommitByOwner, text);
        }
    }

    /// The coordinator took a process for the member of this static id.
    pub(crate) fn took(&mut self, pid: Pid, instance_id: &str) {
        self.holders.insert(instance_id.to_owned(), pid);
    }

    /// A late request told the coordinator what is not so any more. The protocol has nothing that tells it from a new one.
    pub(crate) fn misled(&mut self, pid: Pid) {
        self.blind(pid);
    }

    /// Kafka's coordinator takes the targets of members for what they own when it makes a classic group of them. That is put right as
    /// they join again; whoever upgrades the group before is given what they still have.
    pub(crate) fn downgraded(&mut self) {
        let classic = |view: &&mut View| matches!(view.state, Some(State::Classic(_)));
        self.views.values_mut().filter(classic).for_each(|view| view.blind = true);
    }

    /// Kafka's coordinator takes what it assigned last to each classic member for what that owns when it makes a consumer group of
    /// them, and gives the rest away at once. That forgets what a member still gives up by its last assignment, and all that
    /// members have once a rebalance was broken off before its assignments were there: those of before are thrown away then.
    pub(crate) fn upgraded(&mut self, pid: Pid, account: &BTreeSet<TopicPartition>) {
        let Some(view) = self.views.get_mut(&pid) else { return };
        for (partition, owned) in view.owned.iter_mut().filter(|(partition, _)| !account.contains(partition)) {
            owned.unaccounted = true;
            // Its member commits of it still, in an epoch that is good.
            self.excused.insert(partition.clone());
        }
    }

    /// A classic member keeps all that it has by its new assignment: the coordinator knows of it.
    pub(crate) fn accounted(&mut self, pid: Pid) {
        self.view(pid).owned.values_mut().for_each(|owned| owned.unaccounted = false);
    }

    /// A heartbeat was answered blindly.
    pub(crate) fn blind(&mut self, pid: Pid) {
        if let Some(view) = self.views.get_mut(&pid) {
            view.blind = true;
        }
    }
}
