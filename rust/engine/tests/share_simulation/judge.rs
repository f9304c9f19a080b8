//! What is judged at the client: rows that are handed out, acknowledgements and their outcomes, and the end.

use monedula_engine::share::{AcknowledgeError, AcknowledgeType, Acknowledgement, HeldPart, PlannedPartition};
use monedula_engine::{Now, TopicPartition};

use crate::leaders::{Loss, State, offsets};
use crate::network::Pid;
use crate::process::{Asked, FetchedRows};
use crate::rules::{Bug, Rule, Violation};
use crate::world::World;

impl World {
    /// A rule is broken.
    pub(crate) fn fail(&mut self, rule: Rule, text: String) {
        self.trace(|| format!("{rule:?} is broken: {text}"));
        self.violation.get_or_insert(Violation { rule, at: self.now, text });
    }

    /// Whether all has been well since then, and for long enough that nothing before it matters.
    fn is_calm_since(&self, at: Now) -> bool {
        self.calm && at > self.plan.calm + self.plan.request_timeout + self.plan.max_wait
    }

    /// Locks end by now.
    pub(crate) fn expire(&mut self) {
        let ms = self.ms();
        for (pid, partition, offset, since_ms) in self.leaders.expire(ms) {
            let since = Now::from_millis((since_ms - crate::world::START_MS) as u64);
            if self.processes.contains_key(&pid) && self.is_calm_since(since) {
                self.fail(Rule::Expired, format!("p{pid}: the lock of {offset} of {partition}"));
            }
        }
    }

    /// Records arrive at a process.
    pub(crate) fn acquired(&mut self, pid: Pid, rows: FetchedRows, asked: &Asked) {
        let partition = rows.part.partition.clone();
        if !asked.assigned.contains(&partition) {
            self.fail(Rule::Unassigned, format!("p{pid} reads {partition}, by #{}", asked.request));
        }
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for (offset, has_record) in &rows.offsets {
            let row = (partition.clone(), *offset);
            match process.has_in_hand(&row) {
                true => _ = process.acquired_at.entry(row.clone()).or_insert(now),
                false => _ = process.acquired_at.insert(row.clone(), now),
            }
            process.decided.insert(row, (rows.request, (!has_record).then_some(AcknowledgeType::Gap)));
        }
        process.queue.push_back(rows);
    }

    /// Rows of a part are handed out.
    pub(crate) fn judge_rows(&mut self, pid: Pid, part: &HeldPart, request: u64) {
        let (node, partition) = (part.session.node, &part.partition);
        let Some(process) = self.processes.get(&pid) else { return };
        if process.knows_lost(node, partition, request) {
            return self.fail(Rule::Stale, format!("p{pid} hands out rows of {partition}, which #{request} acquired"));
        }
        for offset in part.runs.iter().flat_map(|run| run.offset..run.offset + run.rows as i64) {
            let text = |what: &str| format!("p{pid}: {offset} of {partition}, which #{request} acquired, {what}");
            match self.leaders.state(partition, offset) {
                Some(State::Acquired { by, due_ms, .. }) if by == pid => {
                    if self.ms_of(part.deadline) > due_ms {
                        return self.fail(Rule::Deadline, text("is locked for less long"));
                    }
                }
                state => match self.leaders.losses.get(&(pid, partition.clone(), offset)) {
                    // It may not know that yet.
                    Some(Loss::Session | Loss::Moved | Loss::GivenUp) => self.figures.met("unnoticed losses", 1),
                    loss => return self.fail(Rule::Late, text(&format!("is {state:?}, after {loss:?}"))),
                },
            }
        }
    }

    /// What a request is to acknowledge.
    pub(crate) fn judge_decisions(&mut self, pid: Pid, planned: &[PlannedPartition]) {
        let Some(process) = self.processes.get(&pid) else { return };
        for it in planned {
            let partition = self.partition(it.topic_id, it.partition);
            for (offset, kind) in offsets(&it.batches) {
                let decided = process.decided.get(&(partition.clone(), offset)).and_then(|(_, decided)| *decided);
                if kind != AcknowledgeType::Renew.id() && decided.map(AcknowledgeType::id) != Some(kind) {
                    let text = format!("p{pid}: {offset} of {partition} is told as {kind}, and decided is {decided:?}");
                    return self.fail(Rule::Decision, text);
                }
            }
        }
    }

    /// An acknowledgement has its outcome.
    pub(crate) fn acknowledged(
        &mut self,
        pid: Pid,
        acknowledgement: &Acknowledgement,
        outcome: Result<Now, AcknowledgeError>,
    ) {
        let Acknowledgement { ticket, session, partition, ranges, .. } = acknowledgement;
        let outcome = match outcome {
            Err(AcknowledgeError::Unknown { .. }) if self.bug == Some(Bug::LostIsRefused) => {
                Err(AcknowledgeError::SessionLost)
            }
            outcome => outcome,
        };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some((since_ms, _)) = process.tickets.remove(ticket) else {
            return self.fail(Rule::Outcome, format!("p{pid}: {ticket} has two outcomes, {outcome:?} at last"));
        };
        process.held.renewed(*ticket, &outcome);
        let each = ranges.iter().flat_map(|range| (range.first..=range.last).map(|offset| (offset, range.kind)));
        let each: Vec<(i64, AcknowledgeType)> = each.collect();
        let acquired_at = |row: &(i64, AcknowledgeType)| process.acquired_at.get(&(partition.clone(), row.0)).copied();
        let first = each.iter().filter_map(acquired_at).min().unwrap_or_default();
        match &outcome {
            Err(error) => self.figures.met(named(error), 1),
            Ok(_) => {
                self.figures.met("accepted", each.iter().filter(|(_, kind)| *kind == AcknowledgeType::Accept).count())
            }
        }
        if let Err(error) = &outcome
            && self.is_calm_since(first)
            && self.processes.get(&pid).is_some_and(|process| process.closing.is_none())
        {
            return self.fail(Rule::Causeless, format!("p{pid}: {ticket} of {partition}: {error}"));
        }
        for (offset, kind) in each {
            // Of two of the same offset it is not known which one was applied.
            let row = (partition.clone(), offset);
            let is_vague = self.processes.get(&pid).is_some_and(|process| process.awaits_outcome(&row));
            let was_applied = match outcome {
                Err(_) if is_vague => false,
                _ => self.leaders.take_applied(pid, (partition, offset), (session.node, kind), since_ms),
            };
            match &outcome {
                Ok(until) if kind == AcknowledgeType::Renew => self.judge_renewal(pid, partition, offset, *until),
                Ok(_) if was_applied => {}
                Err(AcknowledgeError::Unknown { .. }) => {}
                Err(_) if !was_applied => {}
                _ => {
                    let text = format!("p{pid}: {ticket}, {offset} of {partition}, {kind:?}: {outcome:?}");
                    return self.fail(Rule::Outcome, text);
                }
            }
        }
    }

    fn judge_renewal(&mut self, pid: Pid, partition: &TopicPartition, offset: i64, until: Now) {
        if let Some(State::Acquired { by, due_ms, .. }) = self.leaders.state(partition, offset)
            && by == pid
            && self.ms_of(until) > due_ms
        {
            self.fail(Rule::Deadline, format!("p{pid}: {offset} of {partition} is renewed for less long"));
        }
    }

    /// All sessions of a process are closed: it holds nothing, if nothing went wrong.
    pub(crate) fn judge_closed(&mut self, pid: Pid) {
        let is_late =
            self.processes.get(&pid).and_then(|process| process.closing).is_none_or(|until| until <= self.now);
        if self.is_calm_since(self.now) && !is_late {
            self.judge_held(|by| by == pid);
        }
    }

    pub(crate) fn judge_held(&mut self, of: impl Fn(Pid) -> bool) {
        let held = self.leaders.acquired(of);
        if let Some((pid, partition, offset)) = held.first() {
            let text = format!("p{pid} has closed, and holds {offset} of {partition} and {} more", held.len() - 1);
            self.fail(Rule::Held, text);
        }
    }

    /// All that is to be true at the end.
    pub(crate) fn judge_end(&mut self) {
        self.judge_held(|_| true);
        let partitions: Vec<TopicPartition> = self.leaders.partitions.keys().cloned().collect();
        for (partition, lag) in self.lags() {
            let expected = self.leaders.lag(&partition);
            // Nothing is stored of a partition before something is said of its records.
            let is_unread = lag == -1 && expected == self.leaders.count(&partition, |_| true);
            // A leader counts what compaction has removed until it comes to it.
            if lag != expected && !is_unread && !self.plan.compacts {
                self.fail(Rule::Lag, format!("{partition} has a lag of {lag}, not {expected}"));
            }
        }
        let of = |it: &TopicPartition| self.leaders.count(it, |state| state == State::Archived) as usize;
        let archived = partitions.iter().map(of).sum();
        self.figures.met("archived", archived);
        let (dead, died) = (self.dead_letters(), self.leaders.dead_letters);
        self.figures.met("dead letters", dead);
        // Of an offset without a record there is no dead letter.
        if self.plan.dead_letters && !self.plan.compacts && dead != died {
            self.fail(Rule::Lag, format!("{dead} dead letters were written, and {died} records died"));
        }
    }

    /// Whether all records that members read are done with.
    pub(crate) fn is_drained(&self) -> bool {
        self.leaders.partitions.keys().all(|partition| !self.is_read(partition) || self.leaders.lag(partition) == 0)
    }
}

fn named(error: &AcknowledgeError) -> &'static str {
    match error {
        AcknowledgeError::LockLost => "LockLost",
        AcknowledgeError::NotRenewed => "NotRenewed",
        AcknowledgeError::NoRenewals => "NoRenewals",
        AcknowledgeError::LeaderMoved => "LeaderMoved",
        AcknowledgeError::SessionLost => "SessionLost",
        AcknowledgeError::Unknown { .. } => "Unknown",
        AcknowledgeError::Refused { .. } => "Refused",
        AcknowledgeError::Closed => "Closed",
    }
}
