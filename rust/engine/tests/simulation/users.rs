//! The user: threads that are handed batches, finish and commit them, and run callbacks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::ledger::OffsetAndEpoch;

use crate::checks::{Pid, Rule};
use crate::plan::CLOSE;
use crate::planted::Bug;
use crate::process::{Doing, Ending, Part};
use crate::sometimes::Situation;
use crate::trace::say;
use crate::world::{Event, World};
use monedula_engine::group::{CallbackKind, CommitOffset, Input};

impl World {
    /// Gives the user's waiting threads what there is for them. Returns whether the machine has something to hear.
    pub(crate) fn serve(&mut self, pid: Pid) -> bool {
        let now = self.now;
        for _ in 0..1000 {
            let Some(process) = self.processes.get_mut(&pid) else { return false };
            let calling = process.holders.iter().position(|holder| matches!(holder.doing, Doing::Calling));
            if calling.is_some() && process.ending == Ending::Wanted {
                let deadline = now + if self.calm { CLOSE } else { self.chance.ms(50, CLOSE.as_millis() as usize) };
                process.ending = Ending::Closing(deadline);
                process.inbox.push_back(Input::Close { deadline, leave: true });
            }
            if let Some(index) = calling.filter(|_| !process.is_calling_back())
                && let Some((ticket, kind, partitions)) = process.callbacks.pop_front()
            {
                let time = self.chance.ms(0, process.habits.callback_ms) + std::mem::take(&mut process.slow);
                self.leave_call(pid, index, Doing::CallingBack(ticket, kind, partitions), time);
                continue;
            }
            self.answer_settles(pid);
            let Some(index) = calling.filter(|_| self.processes[&pid].ending == Ending::None) else { break };
            let parts = self.hand_out(pid);
            if parts.is_empty() {
                if let Some(partition) = self.checks.available(pid) {
                    self.checks.fail(Rule::Stalled, format!("p{pid}: the user waits, and gets nothing of {partition}"));
                }
                break;
            }
            let process = self.processes.get_mut(&pid).unwrap();
            let time = self.chance.ms(0, process.habits.hold_ms) + std::mem::take(&mut process.slow);
            process.last_batch += 1;
            let places: Vec<_> = parts
                .iter()
                .map(|part| {
                    (part.partition.clone(), part.reading_id, OffsetAndEpoch { offset: part.to, leader_epoch: 0 })
                })
                .collect();
            process.ledger.hand_out(process.last_batch, index as u64, &places);
            self.leave_call(pid, index, Doing::Holding(parts), time);
        }
        self.processes.get(&pid).is_some_and(|process| !process.inbox.is_empty())
    }

    fn leave_call(&mut self, pid: Pid, index: usize, doing: Doing, time: Duration) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.returned = now;
        let holder = &mut process.holders[index];
        holder.doing = doing;
        holder.turn += 1;
        let turn = holder.turn;
        self.push(now + time, Event::User(pid, index, turn));
    }

    fn answer_settles(&mut self, pid: Pid) {
        let (now, bug) = (self.now, self.bug);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let may = !process.habits.on_revoked || process.is_calling();
        for (ticket, partitions) in std::mem::take(&mut process.settles) {
            if may && process.ledger.is_quiet(&partitions) {
                process.settled = now;
                let offsets = process.ledger.snapshot(Some(&partitions));
                let mut offsets = process.stamped(offsets);
                match bug {
                    Some(Bug::NoCommitOnceSought) => offsets.retain(|partition, _| !process.sought.contains(partition)),
                    Some(Bug::NoCommitOnceFailed) => {
                        let failed = |partition: &TopicPartition, at: &CommitOffset| {
                            process.failed.contains(&(partition.clone(), at.offset, at.metadata.clone()))
                        };
                        offsets.retain(|partition, at| !failed(partition, at));
                    }
                    _ => {}
                }
                process.failed.retain(|(partition, ..)| !partitions.contains(partition));
                process.inbox.push_back(Input::Finished { ticket, offsets });
            } else {
                process.settles.push((ticket, partitions));
            }
        }
    }

    /// A batch, as the gates allow it.
    fn hand_out(&mut self, pid: Pid) -> Vec<Part> {
        let (now, bug) = (self.now, self.bug);
        let Some(process) = self.processes.get_mut(&pid) else { return Vec::new() };
        let leased = process.lease.is_none_or(|until| now < until) || bug == Some(Bug::IgnoreLease);
        let kept = process.rebalancing && bug == Some(Bug::PauseKept);
        let mut room = process.habits.batch_max as i64;
        let mut parts = Vec::new();
        for (partition, lane) in &mut process.lanes {
            let end = if self.topics.get(&partition.topic).map(|info| info.id) == lane.topic_id {
                self.checks.end(partition)
            } else {
                0
            };
            let Some(position) = lane.position.filter(|position| *position < end) else { continue };
            if !lane.open || lane.settling || kept || room <= 0 {
                continue;
            }
            if !leased {
                self.checks.met.met(Situation::HeldBackByLease);
                continue;
            }
            let to = end.min(position + room);
            room -= to - position;
            lane.position = Some(to);
            let (reading_id, topic_id) = (lane.reading_id, lane.topic_id);
            parts.push(Part { partition: partition.clone(), reading_id, topic_id, from: position, to });
        }
        for Part { partition, from, to, .. } in &parts {
            self.checks.delivered(pid, partition, *from, *to);
        }
        if !parts.is_empty() {
            self.meet_zombies(pid, &parts);
        }
        parts
    }

    /// Whether another process still works on records of what is handed out here.
    fn meet_zombies(&mut self, pid: Pid, parts: &[Part]) {
        let taken: BTreeSet<TopicPartition> = parts.iter().map(|part| part.partition.clone()).collect();
        if self.processes.iter().any(|(other, process)| *other != pid && process.holds(&taken)) {
            self.checks.met.met(Situation::ZombieHolds);
        }
    }

    /// A thread of the user's has done what it did.
    pub(crate) fn user(&mut self, pid: Pid, index: usize, turn: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.holders[index].turn != turn {
            return;
        }
        match std::mem::replace(&mut process.holders[index].doing, Doing::Calling) {
            Doing::Holding(parts) => self.finish(pid, index, &parts),
            Doing::CallingBack(ticket, kind, partitions) => {
                if kind == CallbackKind::Revoked && process.habits.commits_in_callback {
                    let then = Doing::CallingBack(ticket, kind, partitions.clone());
                    if self.commit(pid, &partitions, Some((index, then))) {
                        self.checks.met.met(Situation::CommittedInCallback);
                        return self.run_process(pid);
                    }
                }
                self.called_back(pid, ticket, kind, &partitions);
            }
            other => process.holders[index].doing = other,
        }
        self.run_process(pid);
    }

    fn finish(&mut self, pid: Pid, index: usize, parts: &[Part]) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for Part { partition, topic_id, from, to, .. } in parts {
            if self.topics.get(&partition.topic).map(|info| info.id) == *topic_id {
                self.checks.cover(partition, *from, *to);
            }
        }
        process.ledger.finish_held(index as u64);
        let current: BTreeSet<TopicPartition> = parts
            .iter()
            .filter(|part| process.lanes.get(&part.partition).is_some_and(|lane| lane.reading_id == part.reading_id))
            .map(|part| part.partition.clone())
            .collect();
        let (seeks, commits, waits) = (process.habits.seeks, process.habits.commits, process.habits.waits);
        if self.chance.odds(seeks) && !self.calm {
            self.seek(pid, &current);
        }
        if self.chance.odds(commits) {
            let then = self.chance.odds(waits).then_some((index, Doing::Calling));
            self.commit(pid, &current, then);
        }
    }

    fn seek(&mut self, pid: Pid, among: &BTreeSet<TopicPartition>) {
        let Some(partition) = among.first() else { return };
        let Some(log) = self.checks.logs.get(partition) else { return };
        let (start, end) = (log.start, log.end);
        let to = start + self.chance.below((end - start) as usize + 1) as i64;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let reading_id = process.new_reading_id();
        let Some(lane) = process.lanes.get_mut(partition) else { return };
        if lane.position.replace(to).is_none() {
            return;
        }
        lane.reading_id = reading_id;
        process.sought.insert(partition.clone());
        process.ledger.restart(partition, reading_id, Some(OffsetAndEpoch { offset: to, leader_epoch: -1 }));
        say!(self, "p{pid} seeks {partition} to {to}");
        // A seek passes over rows that this thread or another one has not finished.
        self.checks.sought(pid, partition, start, to, reading_id);
        self.checks.met.met(Situation::Sought);
    }

    /// The user commits what is finished of these; `then`: which thread waits, and what for. Returns whether there was any.
    fn commit(&mut self, pid: Pid, of: &BTreeSet<TopicPartition>, then: Option<(usize, Doing)>) -> bool {
        let deadline = self.now + self.chance.ms(1000, 10_000);
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        process.ledger.snapshot(Some(of));
        let offsets: BTreeMap<TopicPartition, CommitOffset> = of
            .iter()
            .filter_map(|partition| {
                let place = process.ledger.finished(partition)?;
                let OffsetAndEpoch { offset, leader_epoch } = place;
                Some((partition.clone(), CommitOffset { offset, leader_epoch, metadata: String::new() }))
            })
            .collect();
        if offsets.is_empty() {
            return false;
        }
        let offsets = process.stamped(offsets);
        self.send_commit(pid, offsets, deadline, then);
        true
    }

    fn send_commit(
        &mut self,
        pid: Pid,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        deadline: Duration,
        then: Option<(usize, Doing)>,
    ) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let ticket = process.new_ticket();
        process.commits.insert(ticket, (deadline, offsets.clone()));
        if let Some((index, then)) = then {
            process.holders[index].doing = Doing::Committing(ticket, Box::new(then));
        }
        process.inbox.push_back(Input::Commit { ticket, offsets, deadline });
    }

    /// When all is well, who commits by hand sees to it that all is committed.
    pub(crate) fn commit_all(&mut self, pid: Pid) {
        let deadline = self.now + Duration::from_secs(5);
        let by_hand = self.plan.auto_commit.is_none();
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if by_hand && process.ending == Ending::None {
            let offsets = process.ledger.snapshot(None);
            let offsets = process.stamped(offsets);
            if !offsets.is_empty() {
                self.send_commit(pid, offsets, deadline, None);
                self.run_process(pid);
            }
            self.push(self.now + Duration::from_secs(1), Event::CommitAll(pid));
        }
    }
}
