//! The coordinator's side: what it took, gave and forgot.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;

use super::{Checks, Pid, ReadingId, Rule, Stray};
use crate::excuses::Excuse;
use crate::messages::{Answered, Asked, Found};
use crate::sometimes::Situation;
use monedula_engine::group::{Call, CallId, CommitOffset, GroupResponse};

impl Checks {
    /// The coordinator answered `call` of a process. `late`: its sender has given it up.
    pub(crate) fn served(&mut self, pid: Pid, id: CallId, call: &Call, answer: &GroupResponse, late: bool) {
        if let (Some((_, offsets)), Some(codes)) = (call.commit(), answer.commit_codes()) {
            for (partition, at) in offsets {
                match codes.get(partition) {
                    Some(ErrorCode::None) => {
                        let owned = self.views.get(&pid).and_then(|view| view.owned.get(partition));
                        let doubtful = owned.is_some_and(|owned| owned.doubt.is_some());
                        self.commit_accepted((pid, id), partition, at, late || doubtful);
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
        if let GroupResponse::SyncGroup { code: ErrorCode::None, assignment, .. } = answer {
            self.synced(pid, call, assignment);
        }
        if let Some(found) = answer.found().filter(|_| !late) {
            self.looked_up(pid, found);
        }
    }

    fn looked_up(&mut self, pid: Pid, found: &Found) {
        for (partition, found) in found {
            let Ok(found) = found else { continue };
            let at = found.as_ref().map(|at| at.offset);
            let owned = self.views.get_mut(&pid).and_then(|view| view.owned.get_mut(partition));
            if let Some(owned) = owned.filter(|owned| !owned.gone) {
                owned.looked_up = Some(at);
            }
        }
    }

    /// What was committed of a topic that is no more is gone with it.
    pub(crate) fn forget_committed(&mut self, topic: &Arc<str>) {
        let of = |partition: &TopicPartition| partition.topic == *topic;
        self.committed.retain(|partition, _| !of(partition));
        self.strays.retain(|partition, _| !of(partition));
        for (_, owned) in self.views.values_mut().flat_map(|view| &mut view.owned).filter(|(owned, _)| of(owned)) {
            owned.gone = true;
            self.met.met(Situation::OwnedOfGone);
        }
    }

    /// Whether it is owned of a topic that is no more.
    pub(crate) fn is_gone(&self, pid: Pid, partition: &TopicPartition) -> bool {
        self.views.get(&pid).and_then(|view| view.owned.get(partition)).is_some_and(|owned| owned.gone)
    }

    /// Whether the coordinator took this offset from that process, in that reading.
    pub(crate) fn was_committed(
        &self,
        pid: Pid,
        partition: &TopicPartition,
        offset: i64,
        reading_id: ReadingId,
    ) -> bool {
        self.accepted.contains(&(pid, partition.clone(), offset, reading_id))
    }

    /// `stray`: its sender has given it up, or the coordinator believes the partition to be another's.
    fn commit_accepted(&mut self, request: (Pid, CallId), partition: &TopicPartition, at: &CommitOffset, stray: bool) {
        let pid = request.0;
        let (offset, reading_id) = (at.offset, at.metadata.parse().unwrap_or_default());
        let uncovered = self.uncovered(partition);
        if offset > uncovered {
            let text = format!("{partition}: {offset} is committed, but {uncovered} was not finished");
            self.fail(Rule::CommittedUnfinished, text);
        }
        let before = self.committed.insert(partition.clone(), offset);
        self.accepted.insert((pid, partition.clone(), offset, reading_id));
        let sought = self.sought.get_mut(&(pid, partition.clone()));
        let sought = sought.is_some_and(|reading_ids| {
            let first = reading_ids.contains(&reading_id);
            reading_ids.retain(|known| *known > reading_id);
            first
        });
        let strays = match stray {
            true => {
                self.excused.insert((Excuse::StrayGoesBack, None, Some(partition.clone())));
                let stray = Stray { request, replaced: before };
                self.strays.entry(partition.clone()).or_default().push(stray);
                Vec::new()
            }
            false => self.strays.remove(partition).unwrap_or_default(),
        };
        if before.is_none_or(|before| offset >= before) {
            return;
        }
        if stray {
            self.excuse(Excuse::StrayGoesBack);
        } else if sought {
            self.excuse(Excuse::BackAfterSeek);
        } else if strays.iter().any(|stray| stray.replaced <= Some(offset)) {
            self.excuse(Excuse::BackAfterStray);
        } else {
            let text = format!("{partition}: {offset} of p{pid} is committed over {before:?}, and nobody went back");
            self.fail(Rule::CommitByOwner, text);
        }
    }

    /// Whether a stray commit stands over those of owners.
    pub(crate) fn has_stray(&self, partition: &TopicPartition) -> bool {
        self.strays.contains_key(partition)
    }

    /// Whether any process committed this offset.
    pub(crate) fn is_known(&self, partition: &TopicPartition, offset: i64) -> bool {
        self.accepted.iter().any(|(_, known, at, _)| known == partition && *at == offset)
    }

    /// The coordinator took a process for the member of this static id.
    pub(crate) fn took(&mut self, pid: Pid, instance_id: &str) {
        let now = self.now;
        let holder = self.holders.entry(instance_id.to_owned()).or_insert((pid, now));
        if holder.0 != pid {
            *holder = (pid, now);
        }
    }

    /// A late request told the coordinator what is not so any more, and what it `owns`. The protocol has nothing that tells it from a
    /// new one.
    pub(crate) fn misled(&mut self, pid: Pid, owns: &BTreeSet<TopicPartition>) {
        let now = self.now;
        let Some(view) = self.views.get_mut(&pid) else { return };
        view.misled = Some(now);
        let others = view.owned.iter_mut().filter(|(partition, _)| !owns.contains(partition));
        others.for_each(|(_, owned)| owned.doubt = Some(Excuse::Misled));
        self.excused.insert((Excuse::Misled, Some(pid), None));
    }

    /// A heartbeat of the consumer protocol that was sent then has an answer: what its member does not give up is its own.
    pub(crate) fn heard(&mut self, pid: Pid, sent: Now) {
        let Some(view) = self.views.get_mut(&pid).filter(|view| view.misled.is_some_and(|misled| misled < sent)) else {
            return;
        };
        view.misled = None;
        let kept = view.owned.values_mut().filter(|owned| !owned.settling && owned.doubt == Some(Excuse::Misled));
        kept.for_each(|owned| owned.doubt = None);
    }

    /// Kafka's coordinator takes what it assigned last to each classic member for what that owns when it makes a consumer group of
    /// them, and gives the rest away at once. That forgets what a member still gives up by its last assignment, and all that
    /// members have once a rebalance was broken off before its assignments were there: those of before are thrown away then.
    pub(crate) fn upgraded(&mut self, pid: Pid, account: &BTreeSet<TopicPartition>) {
        let Some(view) = self.views.get_mut(&pid) else { return };
        for (partition, owned) in view.owned.iter_mut().filter(|(partition, _)| !account.contains(partition)) {
            owned.doubt = Some(Excuse::Unaccounted);
            self.excused.insert((Excuse::Unaccounted, None, Some(partition.clone())));
        }
    }

    /// Kafka's coordinator takes the targets of members for what they own when it makes a classic group of them. That is put right as
    /// they join again; whoever asks before is given what others still have.
    pub(crate) fn downgraded(&mut self, pid: Pid, account: &BTreeSet<TopicPartition>) {
        let Some(view) = self.views.get_mut(&pid) else { return };
        let unknown = view.owned.iter_mut().filter(|(partition, _)| !account.contains(partition));
        unknown.for_each(|(_, owned)| owned.doubt = Some(Excuse::Downgraded));
    }

    /// The coordinator told a classic member what it has: so it knows of that.
    fn accounted(&mut self, pid: Pid, assigned: &BTreeSet<TopicPartition>) {
        let Some(view) = self.views.get_mut(&pid) else { return };
        let known = view.owned.iter_mut().filter(|(partition, _)| assigned.contains(partition));
        known.for_each(|(_, owned)| owned.doubt = None);
    }

    /// A classic member was given its assignment.
    fn synced(&mut self, pid: Pid, call: &Call, assignment: &[u8]) {
        match monedula_engine::assign::read_assignment(assignment) {
            Ok(assigned) => {
                let assigned: BTreeSet<_> = assigned.partitions.into_iter().collect();
                self.accounted(pid, &assigned);
                self.given_by_sync(call, assigned);
            }
            Err(error) => self.fail(Rule::Outcomes, format!("an assignment that cannot be read: {error}")),
        }
    }

    /// A heartbeat that was sent then was answered blindly.
    pub(crate) fn blind(&mut self, pid: Pid, id: CallId, sent: Now) {
        if let Some(view) = self.views.get_mut(&pid) {
            view.blind = view.blind.max(Some(sent));
            view.blind_calls.insert(id);
            self.excused.insert((Excuse::Blind, Some(pid), None));
        }
    }
}
