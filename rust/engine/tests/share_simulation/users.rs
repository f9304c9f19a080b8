//! The users' threads: they are handed rows, decide what becomes of them, commit, renew, and do something else.

use std::slice::from_ref;
use std::time::Duration;

use monedula_engine::share::{AcknowledgeType, Decided, HeldPart, RowRun};

use crate::network::Pid;
use crate::plan::Habits;
use crate::process::{Doing, FetchedRows, UserBatch, UserRow};
use crate::rules::{Bug, Rule};
use crate::world::{Event, World};

impl World {
    /// Hands rows to the threads that wait. Returns whether there were any.
    pub(crate) fn serve(&mut self, pid: Pid) -> bool {
        let mut has_any = false;
        while let Some(process) = self.processes.get(&pid).filter(|process| process.closing.is_none()) {
            let Some(index) = process.threads.iter().position(|thread| thread.doing == Doing::Calling) else { break };
            let Some(batch) = self.hand_out(pid, index) else { break };
            let hold = self.hold_time(pid);
            self.turn(pid, index, Doing::Holding(batch), Some(hold));
            has_any = true;
        }
        has_any
    }

    fn hold_time(&mut self, pid: Pid) -> Duration {
        let Habits { hold_ms, longest_renewal, .. } = self.processes[&pid].habits;
        if self.calm {
            // While all is well, work that takes longer than a lock depends on renewals alone.
            let is_long = longest_renewal > 10 * self.plan.lock && self.chance.odds(50);
            return if is_long { self.plan.lock * 3 / 2 } else { self.chance.ms(0, 20) };
        }
        self.chance.ms(0, hold_ms)
    }

    /// The next doing of a thread, and how long it takes.
    fn turn(&mut self, pid: Pid, index: usize, doing: Doing, takes: Option<Duration>) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let thread = &mut process.threads[index];
        (thread.doing, thread.turn) = (doing, thread.turn + 1);
        let turn = thread.turn;
        if let Some(takes) = takes {
            self.push(now + takes, Event::User(pid, index, turn));
        }
    }

    /// A batch of what was acquired, for a thread.
    fn hand_out(&mut self, pid: Pid, index: usize) -> Option<u64> {
        let (now, bug) = (self.now, self.bug);
        let process = self.processes.get_mut(&pid)?;
        if bug != Some(Bug::IgnoreDeadline) {
            process.queue.retain(|rows| rows.part.deadline > now);
        }
        let (mut parts, mut rows, max_rows) = (Vec::new(), Vec::new(), process.habits.max_rows);
        while rows.len() < max_rows
            && let Some(fetched) = process.queue.front_mut()
        {
            let (request, part) = take_part(fetched, max_rows - rows.len(), rows.len());
            if fetched.offsets.is_empty() {
                process.queue.pop_front();
            } else {
                self.figures.met("batches in parts", 1);
            }
            let partition = &part.partition;
            let offsets = part.runs.iter().flat_map(|run| run.offset..run.offset + run.rows as i64);
            let row = |offset| UserRow { partition: partition.clone(), offset, request, decided: None };
            rows.extend(offsets.map(row));
            self.figures.met("gaps", part.gaps.len());
            parts.push((request, part));
        }
        let held = parts.iter().map(|(_, part)| part.clone()).collect();
        let (batch, mut gaps) = process.held.hand_out(index as u64, held, now);
        if bug == Some(Bug::KeepGaps) {
            gaps.clear();
        }
        if let Some(id) = batch {
            process.fetches_ahead = process.habits.fetches_ahead;
            self.figures.met("handed out", rows.len());
            process.batches.insert(id, UserBatch { thread: index as u64, rows });
        }
        self.acknowledge(pid, gaps.into_iter().map(|gaps| (gaps, None)).collect());
        parts.iter().for_each(|(request, part)| self.judge_rows(pid, part, *request));
        batch
    }

    /// A thread has done what it did.
    pub(crate) fn user(&mut self, pid: Pid, index: usize, turn: u64) {
        let Some(process) = self.processes.get(&pid).filter(|process| process.closing.is_none()) else { return };
        let thread = process.threads[index];
        if thread.turn != turn {
            return;
        }
        match thread.doing {
            Doing::Holding(batch) => self.finish(pid, index, batch),
            Doing::Calling => {
                // The call ends without records.
                let rests = self.chance.ms(0, 2 * self.plan.lock.as_millis() as usize);
                self.turn(pid, index, Doing::Resting, Some(rests));
            }
            Doing::Resting => self.call(pid, index),
        }
        self.run_process(pid);
    }

    /// A thread asks for the next batch: what it has is accepted, unless that is told explicitly.
    fn call(&mut self, pid: Pid, index: usize) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.habits.is_implicit {
            process.held.accept_rest(index as u64);
            let of_thread = |(_, batch): &(&u64, &UserBatch)| batch.thread == index as u64;
            let batches: Vec<u64> = process.batches.iter().filter(of_thread).map(|(id, _)| *id).collect();
            for batch in batches {
                self.mark(pid, batch, |_| Some(AcknowledgeType::Accept));
            }
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if self.bug != Some(Bug::SendLate) {
            let decided = process.held.take_decided(None, now);
            self.acknowledge(pid, decided);
        }
        let rests = self.processes[&pid].habits.rests;
        let ends = (!self.calm && self.chance.odds(rests)).then(|| self.chance.ms(0, 3000));
        self.turn(pid, index, Doing::Calling, ends);
    }

    fn finish(&mut self, pid: Pid, index: usize, batch: u64) {
        let Habits { is_implicit, masks, exceptions, leaves, commits, rests, renews, .. } = self.processes[&pid].habits;
        if !self.calm && self.chance.odds(renews) {
            self.renew_all(pid, batch);
            let hold = self.hold_time(pid);
            return self.turn(pid, index, Doing::Holding(batch), Some(hold));
        }
        let mut open: Vec<u64> = self.processes[&pid].batches.keys().copied().collect();
        open.retain(|id| *id == batch || self.processes[&pid].batches[id].thread == index as u64);
        for id in open {
            if self.calm {
                self.decide(pid, id, |_| (!is_implicit).then_some(AcknowledgeType::Accept));
            } else if self.chance.odds(exceptions) {
                let Some(process) = self.processes.get_mut(&pid) else { return };
                let rows = process.held.rows(id).unwrap_or_default();
                process.held.decide_undecided(id, 0..rows, AcknowledgeType::Release);
                self.mark(pid, id, |_| Some(AcknowledgeType::Release));
            } else if self.chance.odds(masks) {
                self.decide(pid, id, |world| match world.chance.below(10) {
                    0..=4 => Some(AcknowledgeType::Accept),
                    5..=7 => Some(AcknowledgeType::Release),
                    8 => Some(AcknowledgeType::Reject),
                    _ => None,
                });
            } else if !is_implicit && !self.chance.odds(leaves) {
                self.decide(pid, id, |_| Some(AcknowledgeType::Accept));
            }
        }
        if self.chance.odds(commits) {
            let (now, only) = (self.now, self.chance.odds(500).then_some(batch));
            let Some(process) = self.processes.get_mut(&pid) else { return };
            let decided = process.held.take_decided(only, now);
            self.acknowledge(pid, decided);
        }
        if !self.calm && self.chance.odds(rests) {
            let rest = self.chance.ms(0, 2 * self.plan.lock.as_millis() as usize);
            return self.turn(pid, index, Doing::Resting, Some(rest));
        }
        self.call(pid, index);
    }

    fn renew_all(&mut self, pid: Pid, batch: u64) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let rows = process.held.rows(batch).unwrap_or_default();
        let decided = process.held.take_decided(Some(batch), now);
        let all = 0..rows;
        let renewals = process.held.renew(batch, from_ref(&all), now);
        self.acknowledge(pid, decided);
        self.renew(pid, renewals);
    }

    /// The user decides rows of a batch, each as `of` says.
    fn decide(&mut self, pid: Pid, batch: u64, mut of: impl FnMut(&mut Self) -> Option<AcknowledgeType>) {
        let rows = self.processes[&pid].held.rows(batch).unwrap_or_default();
        for row in 0..rows {
            let Some(kind) = of(self) else { continue };
            let Some(process) = self.processes.get_mut(&pid) else { return };
            let before = process.batches.get(&batch).and_then(|batch| batch.rows[row].decided);
            let one = row..row + 1;
            let taken = process.held.decide(batch, from_ref(&one), kind);
            let expected = before.is_none_or(|before| before == kind);
            process.note_decision(batch, row, kind);
            if !expected && taken == Decided::Taken {
                self.fail(Rule::Decision, format!("p{pid}: row {row} of {batch} is decided twice"));
            }
        }
        self.mark(pid, batch, |_| None);
    }

    /// The user accepts what is left of a batch.
    pub(crate) fn accept(&mut self, pid: Pid, batch: u64) {
        self.decide(pid, batch, |_| Some(AcknowledgeType::Accept));
    }

    /// Notes what is decided of those rows of a batch that were undecided.
    pub(crate) fn mark(&mut self, pid: Pid, batch: u64, of: impl Fn(usize) -> Option<AcknowledgeType>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let rows = process.batches.get(&batch).map_or(0, |batch| batch.rows.len());
        for (row, kind) in (0..rows).filter_map(|row| Some((row, of(row)?))) {
            process.note_decision(batch, row, kind);
        }
        let is_decided = |batch: &UserBatch| batch.rows.iter().all(|row| row.decided.is_some());
        if process.batches.get(&batch).is_some_and(is_decided) {
            process.batches.remove(&batch);
        }
    }
}

/// Takes the next rows off, at most so many, as rows from `first` on.
fn take_part(fetched: &mut FetchedRows, most: usize, first: usize) -> (u64, HeldPart) {
    let (mut part, mut rows) = (fetched.part.clone(), 0);
    while rows < most
        && let Some((offset, has_record)) = fetched.offsets.pop_front()
    {
        if !has_record {
            part.gaps.push((offset, offset));
            continue;
        }
        let row = first + rows;
        match part.runs.last_mut() {
            Some(run) if run.offset + run.rows as i64 == offset => run.rows += 1,
            _ => part.runs.push(RowRun { row, offset, rows: 1 }),
        }
        rows += 1;
    }
    (fetched.request, part)
}
