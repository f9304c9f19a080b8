//! The driver's side of a machine, with the gates of the delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::ledger::OffsetAndEpoch;
use monedula_protocol::error_code::ErrorCode;

use crate::checks::{Pid, Rule};
use crate::excuses::Excuse;
use crate::large::measured;
use crate::machine::may_revoke;
use crate::planted::Bug;
use crate::process::{Doing, Ending, Lane};
use crate::sometimes::Situation;
use crate::trace::say;
use crate::world::{Event, World};
use monedula_engine::group::{
    CallbackKind, CommitError, CommitOffset, GroupError, GroupEvent, GroupProtocol, Input, Output, Scope, Ticket,
    TopicInfo,
};

type Outcomes = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;

impl World {
    // ----- The machine ----------------------------------------------------------------------------------------------------

    /// Lets a process take all that came for it, and then its user.
    pub(crate) fn run_process(&mut self, pid: Pid) {
        loop {
            while let Some(input) = self.processes.get_mut(&pid).and_then(|process| process.inbox.pop_front()) {
                self.handle(pid, input);
            }
            if self.checks.violation.is_some() || !self.serve(pid) {
                return;
            }
        }
    }

    fn handle(&mut self, pid: Pid, mut input: Input) {
        if let Input::Finished { offsets, .. } | Input::Commit { offsets, .. } = &mut input {
            self.spoil_commit(offsets);
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.told_poll = process.polled(self.now);
        let polled = if self.bug == Some(Bug::WaitingIsNoPoll) { process.returned } else { process.told_poll };
        measured(&mut self.members_busy, || {
            process.member.polled(polled);
            process.member.handle(self.now, input);
        });
        if process.member.protocol() == GroupProtocol::Consumer {
            let status = process.member.status();
            self.checks.epoch(pid, status.generation);
        }
        self.drain_outputs(pid);
    }

    /// What planted bugs make of what is to be committed.
    fn spoil_commit(&mut self, offsets: &mut BTreeMap<TopicPartition, CommitOffset>) {
        match self.bug {
            Some(Bug::CommitOneMore) => offsets.values_mut().for_each(|at| at.offset += 1),
            Some(Bug::BackAgain(excuse)) if !self.calm => {
                for (partition, at) in offsets {
                    let before = self.checks.committed.get(partition).copied();
                    let excused = self.checks.excused.contains(&(excuse, None, Some(partition.clone())));
                    let lower = before.filter(|before| excused && *before > 0 && *before < at.offset);
                    if let Some(before) = lower.filter(|_| self.chance.odds(300)) {
                        at.offset = before - 1;
                    }
                }
            }
            Some(Bug::ForgetTheEnd) if self.calm => {
                offsets.retain(|partition, _| !self.checks.has_stray(partition));
            }
            _ => {}
        }
    }

    fn drain_outputs(&mut self, pid: Pid) {
        while let Some(output) = self.processes.get_mut(&pid).and_then(|process| process.member.poll()) {
            self.output(pid, output);
        }
    }

    fn output(&mut self, pid: Pid, output: Output) {
        match output {
            Output::Call { id, target, call } => self.send(pid, id, target, call),
            Output::CancelCall { id } => self.cancel(pid, id),
            Output::Raise { error, fatal } => self.raise(pid, &error, fatal),
            Output::Event(GroupEvent::StateChanged { from, to }) => {
                say!(self, "p{pid} {from:?} -> {to:?}");
                self.checks.state(pid, from, to);
            }
            Output::FallBack => self.checks.fail(Rule::Fatal, format!("p{pid} falls back")),
            Output::ComputeAssignment { ticket, assignor, members } => {
                self.begin_assign(pid, ticket, assignor, members)
            }
            Output::RefreshMetadata | Output::ResolveTopicIds { .. } => self.refresh(pid, false),
            Output::Event(event) => self.event(pid, &event),
            Output::Assigned { partitions } => self.assigned(pid, &partitions),
            Output::StartingOffsets { partitions } => {
                for (partition, committed, is_new) in partitions {
                    self.start_at(pid, partition, committed.map(|at| at.offset), is_new);
                }
            }
            Output::StartingOffsetFailed { partition, code } => {
                self.checks.fail(Rule::Fatal, format!("p{pid}: the start of {partition} failed: {code:?}"));
            }
            Output::PrepareRevocation { ticket, partitions } => self.settle(pid, ticket, partitions),
            Output::CollectFinished { ticket, scope } => {
                let Some(process) = self.processes.get_mut(&pid) else { return };
                let offsets = match scope {
                    Scope::All => process.ledger.snapshot(None),
                    Scope::Only(only) => process.ledger.snapshot(Some(&only)),
                };
                let offsets = process.stamped(offsets);
                process.inbox.push_back(Input::Finished { ticket, offsets });
            }
            Output::Callback { ticket, kind, partitions } => self.callback(pid, ticket, kind, partitions),
            Output::Released { partitions, .. } => self.dropped(pid, &partitions),
            Output::Committed { ticket, outcomes } => self.committed(pid, ticket, &outcomes),
            Output::Lease { until } => {
                let until = self.bug.map_or(until, |bug| bug.lease(until));
                say!(self, "p{pid} lease until {until:?}");
                self.checks.lease(pid, until);
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.lease = until;
                }
            }
            Output::Closed => self.closed(pid),
        }
    }

    fn assigned(&mut self, pid: Pid, partitions: &BTreeSet<TopicPartition>) {
        say!(self, "p{pid} gains {}", names(partitions));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let id_of = |known: &BTreeMap<_, TopicInfo>, partition: &TopicPartition| {
            known.get(&partition.topic).map(|info| info.id)
        };
        let is_classic = process.member.protocol() == GroupProtocol::Classic;
        for partition in partitions {
            // Under the classic protocol topics go by their names, and metadata may not have this one yet.
            let topic_id = id_of(&process.known, partition);
            let is_unknown = is_classic && topic_id.is_none();
            let is_gone = !is_unknown && id_of(&self.topics, partition) != topic_id;
            self.checks.assigned(pid, partition, is_gone);
            let reading_id = process.new_reading_id();
            process.ledger.restart(partition, reading_id, None);
            let lane = Lane { reading_id, topic_id, awaits: None, open: false, position: None, settling: false };
            process.lanes.insert(partition.clone(), lane);
        }
    }

    /// Metadata is there: the machine hears of it, and partitions of a topic that was not known are of the one that has the name.
    pub(crate) fn learn_topics(&mut self, pid: Pid, topics: BTreeMap<Arc<str>, TopicInfo>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let is_classic = process.member.protocol() == GroupProtocol::Classic;
        for (partition, lane) in process.lanes.iter_mut().filter(|(_, lane)| is_classic && lane.topic_id.is_none()) {
            let Some(info) = topics.get(&partition.topic) else { continue };
            lane.topic_id = Some(info.id);
            let is_gone = self.topics.get(&partition.topic).is_none_or(|current| current.id != info.id);
            self.checks.identified(pid, partition, is_gone);
        }
        process.known.clone_from(&topics);
        process.inbox.push_back(Input::Topics { topics });
    }

    fn start_at(&mut self, pid: Pid, partition: TopicPartition, committed: Option<i64>, is_new: bool) {
        say!(self, "p{pid} starts {partition} at {committed:?}, new: {is_new}");
        let (now, latest) = (self.now, self.plan.latest);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(lane) = process.lanes.get_mut(&partition) else { return };
        let Some(offset) = committed else {
            if is_new && latest {
                self.checks.met.met(Situation::GrowthUnderLatest);
            }
            let (reading_id, at) = (lane.reading_id, now + self.chance.ms(1, 200));
            return self.push(at, Event::Resolve(pid, partition, reading_id, is_new || !latest));
        };
        lane.position = Some(offset);
        let reading_id = lane.reading_id;
        process.ledger.start(&partition, reading_id, OffsetAndEpoch { offset, leader_epoch: -1 }, true);
        self.checks.start(pid, &partition, offset);
    }

    /// An offset by policy is there.
    pub(crate) fn resolve(&mut self, pid: Pid, partition: &TopicPartition, reading_id: u64, earliest: bool) {
        let Some(log) = self.checks.logs.get(partition) else { return };
        let (start, offset) = (log.start, if earliest { log.start } else { log.end });
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(lane) = process.lanes.get_mut(partition).filter(|lane| lane.reading_id == reading_id) else { return };
        lane.position = Some(offset);
        process.ledger.start(partition, reading_id, OffsetAndEpoch { offset, leader_epoch: -1 }, false);
        self.checks.start(pid, partition, offset);
        self.checks.cover(partition, start, offset);
        self.run_process(pid);
    }

    fn settle(&mut self, pid: Pid, ticket: Ticket, partitions: BTreeSet<TopicPartition>) {
        say!(self, "p{pid} settles {}", names(&partitions));
        self.checks.settle(pid, &partitions);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.holds(&partitions) {
            self.checks.met.met(Situation::HeldWhileRevoked);
        }
        if self.bug != Some(Bug::IgnoreSettling) {
            let lanes = process.lanes.iter_mut().filter(|(partition, _)| partitions.contains(*partition));
            lanes.for_each(|(_, lane)| lane.settling = true);
        }
        match self.bug {
            Some(Bug::GiveUpEarly) => process.inbox.push_back(Input::Finished { ticket, offsets: BTreeMap::new() }),
            _ => process.settles.push((ticket, partitions)),
        }
    }

    fn callback(&mut self, pid: Pid, ticket: Ticket, kind: CallbackKind, partitions: BTreeSet<TopicPartition>) {
        say!(self, "p{pid} callback {kind:?} {}", names(&partitions));
        let bug = self.bug;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if bug == Some(Bug::SwallowLost) && kind == CallbackKind::Lost {
            return process.inbox.push_back(Input::CalledBack { ticket });
        }
        match kind {
            CallbackKind::Assigned => {
                for (_, lane) in process.lanes.iter_mut().filter(|(partition, _)| partitions.contains(*partition)) {
                    (lane.awaits, lane.open) = (Some(ticket), bug == Some(Bug::OpenEarly));
                }
            }
            CallbackKind::Revoked => self.check_revoked(pid, &partitions),
            CallbackKind::Lost => {}
        }
        self.checks.callback(pid, kind, &partitions);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        match process.listens(kind) {
            true => process.callbacks.push_back((ticket, kind, partitions)),
            false => self.called_back(pid, ticket, kind, &partitions),
        }
    }

    /// Before the user hears that partitions are given up, all that was handed out of them is finished, and that is committed
    /// or was tried.
    fn check_revoked(&mut self, pid: Pid, partitions: &BTreeSet<TopicPartition>) {
        let auto = self.plan.auto_commit.is_some();
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if !process.ledger.is_quiet(partitions) {
            let text = format!("p{pid}: the user still works on {}", names(partitions));
            return self.checks.fail(Rule::RevokedInOrder, text);
        }
        if !auto || process.member.status().generation < 0 {
            return;
        }
        for partition in partitions {
            let Some(finished) = process.ledger.finished(partition).map(|place| place.offset) else { continue };
            let reading_id = process.lanes.get(partition).map_or(0, |lane| lane.reading_id);
            let asked = |(_, offsets): &(Duration, BTreeMap<TopicPartition, CommitOffset>)| {
                offsets.get(partition).is_some_and(|at| at.offset == finished && at.metadata == reading_id.to_string())
            };
            let done = self.checks.was_committed(pid, partition, finished, reading_id)
                || process.commits.values().any(asked)
                || process.failed.contains(&(partition.clone(), finished, reading_id.to_string()));
            // Where no record was handed out, there is nothing to commit.
            let begun = self.checks.starts(pid, partition) != Some(finished);
            // Offsets of a deleted topic cannot be committed; the check of the other partitions shows that the commit was tried.
            if !done && begun && !self.checks.is_gone(pid, partition) {
                let text = format!("p{pid}: {partition} is finished up to {finished}, and no commit was tried");
                return self.checks.fail(Rule::RevokedInOrder, text);
            }
        }
    }

    /// A callback has ended.
    pub(crate) fn called_back(
        &mut self,
        pid: Pid,
        ticket: Ticket,
        kind: CallbackKind,
        partitions: &BTreeSet<TopicPartition>,
    ) {
        say!(self, "p{pid} callback {kind:?} of {} has ended", names(partitions));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if kind == CallbackKind::Assigned {
            let lanes = process.lanes.iter_mut().filter(|(_, lane)| lane.awaits == Some(ticket));
            let announced = lanes.map(|(partition, lane)| {
                lane.open = true;
                partition.clone()
            });
            let announced = announced.collect();
            self.checks.announced(pid, &announced);
        }
        if kind != CallbackKind::Revoked || self.bug != Some(Bug::ForgetCalledBack) {
            process.inbox.push_back(Input::CalledBack { ticket });
        }
    }

    fn dropped(&mut self, pid: Pid, partitions: &BTreeSet<TopicPartition>) {
        say!(self, "p{pid} drops {}", names(partitions));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.holds(partitions) {
            self.checks.met.met(Situation::HeldWhileLost);
        }
        for partition in partitions {
            process.lanes.remove(partition);
            process.ledger.release(partition);
        }
        self.checks.dropped(pid, partitions);
    }

    fn committed(&mut self, pid: Pid, ticket: Option<Ticket>, outcomes: &Outcomes) {
        let now = self.now;
        self.checks.told(pid, outcomes);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for (partition, (at, outcome)) in outcomes {
            match outcome {
                Ok(()) => {}
                Err(error) => {
                    if !matches!(error, CommitError::NotOwned) {
                        process.ledger.not_committed(partition, at.offset);
                    }
                    process.failed.insert((partition.clone(), at.offset, at.metadata.clone()));
                    if ticket.is_none() && may_revoke(process.member.status().state) {
                        self.checks.met.met(Situation::RevocationCommitTroubled);
                    }
                    say!(self, "p{pid} commit of {partition}@{} failed: {error}", at.offset);
                }
            }
        }
        let Some(ticket) = ticket else { return };
        let Some((deadline, _)) = process.commits.remove(&ticket) else {
            return self
                .checks
                .fail(Rule::Outcomes, format!("p{pid}: commit {ticket} has two outcomes, or none asked"));
        };
        if now > deadline + Duration::from_millis(1) && process.stopped_until < deadline {
            let text = format!("p{pid}: commit {ticket} was answered {:?} past its deadline", now - deadline);
            return self.checks.fail(Rule::Outcomes, text);
        }
        let waits = |doing: &Doing| matches!(doing, Doing::Committing(waits, _) if *waits == ticket);
        let Some(index) = process.holders.iter().position(|holder| waits(&holder.doing)) else { return };
        let doing = std::mem::replace(&mut process.holders[index].doing, Doing::Calling);
        if let Doing::Committing(_, then) = doing
            && let Doing::CallingBack(ticket, kind, partitions) = *then
        {
            self.called_back(pid, ticket, kind, &partitions);
        }
    }

    /// Whether the user has not polled for as long as it may, by all that was to be known.
    fn is_overdue(&self, pid: Pid) -> bool {
        self.processes.get(&pid).is_some_and(|process| self.now >= process.told_poll + self.plan.max_poll)
    }

    /// Whether the coordinator had a reason for an error when it answered with that last.
    fn is_justified(&self, pid: Pid, code: ErrorCode) -> bool {
        let call = self.processes.get(&pid).and_then(|process| process.answered.get(&code));
        call.is_some_and(|id| self.checks.justified.contains(&(pid, *id)))
    }

    fn raise(&mut self, pid: Pid, error: &GroupError, fatal: bool) {
        use ErrorCode as E;
        say!(self, "p{pid} raises {error}, fatal: {fatal}");
        match error {
            GroupError::MaxPollExceeded { .. } if self.is_overdue(pid) => {
                self.checks.met.met(Situation::PollExpired);
            }
            GroupError::FencedInstance { .. } if self.is_justified(pid, E::FencedInstanceId) => {
                self.checks.met.met(Situation::Fenced);
            }
            GroupError::Heartbeat { code: E::UnknownServerError, .. }
                if self.is_justified(pid, E::UnknownServerError) =>
            {
                self.checks.excuse(Excuse::UpgradeGivenUp);
            }
            // Another process has this instance id, or had it: it is free once that one's session ends.
            GroupError::UnreleasedInstance { .. }
                if self.is_justified(pid, E::UnreleasedInstanceId) || self.is_justified(pid, E::FencedInstanceId) =>
            {
                self.checks.met.met(Situation::Unreleased);
            }
            GroupError::InconsistentProtocol { .. }
                if self.mixed && self.is_justified(pid, E::InconsistentGroupProtocol) =>
            {
                self.checks.excuse(Excuse::ReadBack);
            }
            other => self.checks.fail(Rule::Fatal, format!("p{pid}: {other}")),
        }
        if let Some(process) = self.processes.get_mut(&pid).filter(|_| fatal) {
            process.fatal = true;
            if process.ending == Ending::None {
                process.ending = Ending::Wanted;
            }
            let slot = process.slot;
            self.push(self.now + Duration::from_secs(2), Event::Start(slot));
        }
    }

    fn event(&mut self, pid: Pid, event: &GroupEvent) {
        match event {
            GroupEvent::Joined { generation, leader, .. } => {
                self.checks.joined(pid, *generation);
                if let Some(process) = self.processes.get_mut(&pid).filter(|_| !leader) {
                    process.group_topics.clear();
                }
            }
            GroupEvent::RebalanceStarted { reason } => {
                say!(self, "p{pid} rebalances: {reason}");
                self.rebalancing(pid, true);
            }
            GroupEvent::Synced { owned, assigned, revoked, .. } => {
                self.rebalancing(pid, false);
                if *revoked > 0 && *owned > *assigned {
                    self.checks.met.met(Situation::PartlyRevoked);
                }
            }
            GroupEvent::LeaseExpired => {
                say!(self, "p{pid} the lease is over");
                self.checks.met.met(Situation::LeaseExpired);
            }
            GroupEvent::Retried { reason, .. } if reason == ErrorCode::UnknownServerError.name() => {
                self.checks.met.met(Situation::UpgradeRefused);
            }
            GroupEvent::LeaseRenewed => self.checks.met.met(Situation::LeaseRenewed),
            GroupEvent::Lost { partitions, reason } => say!(self, "p{pid} loses {}: {reason}", names(partitions)),
            GroupEvent::CoordinatorLost { reason } => say!(self, "p{pid} loses the coordinator: {reason}"),
            GroupEvent::Left { reason } => say!(self, "p{pid} left: {reason}"),
            _ => {}
        }
    }

    fn rebalancing(&mut self, pid: Pid, rebalancing: bool) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.rebalancing = rebalancing;
        }
    }

    fn closed(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        let Ending::Closing(deadline) = process.ending else {
            return self.checks.fail(Rule::Outcomes, format!("p{pid} is closed, but nobody closed it"));
        };
        say!(self, "p{pid} is closed");
        // Commits that have not reached the machine when it closes are answered by its driver.
        let unheard = |ticket: &Ticket| {
            process.inbox.iter().any(|input| matches!(input, Input::Commit { ticket: waits, .. } if waits == ticket))
        };
        if !process.commits.keys().all(unheard) {
            self.checks.fail(Rule::Outcomes, format!("p{pid} is closed, and commits have no outcome"));
        }
        self.checks.met.met(match self.now < deadline {
            true => Situation::ClosedInOrder,
            false => Situation::ClosedAtDeadline,
        });
        if self.now > deadline + Duration::from_millis(1) && process.stopped_until < deadline {
            self.checks.fail(Rule::Outcomes, format!("p{pid} is closed {:?} late", self.now - deadline));
        }
        self.checks.closed(pid);
        self.vanish(pid);
    }
}

pub(crate) fn names(partitions: &BTreeSet<TopicPartition>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
