//! What a process does: the driver's side of the machine, with the gates of the delivery, and the user.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{Topics, builtin, perform, subscribed_topics};
use monedula_engine::group::{
    CallbackKind, CommitError, CommitOffset, GroupError, GroupEvent, Input, Member, Output, Scope, State, Ticket,
};
use monedula_engine::ledger::Place;

use crate::checks::{Pid, Rule};
use crate::large::measured;
use crate::plan::CLOSE;
use crate::planted::Bug;
use crate::process::{Doing, Ending, Lane, Process};
use crate::sometimes::Situation;
use crate::world::{Event, World, say};

type Outcomes = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;

impl World {
    // ----- The machine ----------------------------------------------------------------------------------------------------

    /// Lets a process take all that came for it, and then its user.
    pub(crate) fn run_process(&mut self, pid: Pid) {
        loop {
            while let Some(process) = self.processes.get_mut(&pid) {
                let Some(input) = process.inbox.pop_front() else { break };
                let polled = process.polled(self.now);
                self.handle(pid, Input::Polled { at: polled });
                self.handle(pid, input);
            }
            if self.checks.violation.is_some() || !self.serve(pid) {
                return;
            }
        }
    }

    fn handle(&mut self, pid: Pid, mut input: Input) {
        if let (Some(Bug::CommitOneMore), Input::Settled { offsets, .. } | Input::Commit { offsets, .. }) =
            (self.bug, &mut input)
        {
            offsets.values_mut().for_each(|at| at.offset += 1);
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        measured(&mut self.members_busy, || process.member.handle(self.now, input));
        self.drain_outputs(pid);
    }

    fn drain_outputs(&mut self, pid: Pid) {
        while let Some(output) = self.processes.get_mut(&pid).and_then(|process| process.member.poll()) {
            self.output(pid, output);
        }
    }

    fn output(&mut self, pid: Pid, output: Output) {
        match output {
            Output::Call { id, target, call } => self.send(pid, id, target, call),
            Output::Assign { ticket, assignor, members } => self.begin_assign(pid, ticket, assignor, members),
            Output::Gained { partitions } => self.gained(pid, &partitions),
            Output::Start { partitions } => {
                for (partition, committed, is_new) in partitions {
                    self.start_at(pid, partition, committed.map(|at| at.offset), is_new);
                }
            }
            Output::StartFailed { partition, code } => {
                self.checks.fail(Rule::Fatal, format!("p{pid}: the start of {partition} failed: {code:?}"));
            }
            Output::Settle { ticket, partitions } => self.settle(pid, ticket, partitions),
            Output::Snapshot { ticket, scope } => {
                let Some(process) = self.processes.get_mut(&pid) else { return };
                let offsets = match scope {
                    Scope::All => process.ledger.snapshot(None),
                    Scope::Only(only) => process.ledger.snapshot(Some(&only)),
                };
                process.inbox.push_back(Input::Settled { ticket, offsets });
            }
            Output::Callback { ticket, kind, partitions } => self.callback(pid, ticket, kind, partitions),
            Output::Dropped { partitions } => self.dropped(pid, &partitions),
            Output::Committed { ticket, outcomes } => self.committed(pid, ticket, &outcomes),
            Output::Lease { until } => {
                say!(self, "p{pid} lease until {until:?}");
                self.checks.lease(pid, until);
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.lease = until;
                }
            }
            Output::Raise { error, fatal } => self.raise(pid, &error, fatal),
            Output::RefreshMetadata => self.refresh(pid, false),
            Output::Event(event) => self.event(pid, &event),
            Output::Closed => self.closed(pid),
        }
    }

    fn gained(&mut self, pid: Pid, partitions: &BTreeSet<TopicPartition>) {
        say!(self, "p{pid} gains {}", names(partitions));
        self.checks.gained(pid, partitions);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for partition in partitions {
            let span = process.new_span();
            process.ledger.restart(partition, span, None);
            let lane = Lane { span, awaits: None, open: false, position: None, settling: false };
            process.lanes.insert(partition.clone(), lane);
        }
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
            let (span, at) = (lane.span, now + self.chance.ms(1, 200));
            return self.push(at, Event::Resolve(pid, partition, span, is_new || !latest));
        };
        lane.position = Some(offset);
        let span = lane.span;
        process.ledger.start(&partition, span, Place { offset, leader_epoch: -1 }, true);
        self.checks.start(pid, &partition, offset);
    }

    /// An offset by policy is there.
    pub(crate) fn resolve(&mut self, pid: Pid, partition: &TopicPartition, span: u64, earliest: bool) {
        let log = &self.checks.logs[partition];
        let (start, offset) = (log.start, if earliest { log.start } else { log.end });
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(lane) = process.lanes.get_mut(partition).filter(|lane| lane.span == span) else { return };
        lane.position = Some(offset);
        process.ledger.start(partition, span, Place { offset, leader_epoch: -1 }, false);
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
            Some(Bug::GiveUpEarly) => process.inbox.push_back(Input::Settled { ticket, offsets: BTreeMap::new() }),
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
        let patience = self.plan.config(process.slot).revocation_commit_timeout();
        let too_long = self.now >= process.settled + patience;
        if !auto || too_long || process.habits.seeks > 0 || process.member.status().generation < 0 {
            return;
        }
        for partition in partitions {
            let Some(finished) = process.ledger.finished(partition).map(|place| place.offset) else { continue };
            let asked = |(_, offsets): &(Duration, BTreeMap<TopicPartition, CommitOffset>)| {
                offsets.get(partition).is_some_and(|at| at.offset == finished)
            };
            let done = self.checks.was_committed(partition, finished) || process.commits.values().any(asked);
            // Where nothing was handed out, that nothing is committed costs nothing.
            let begun = self.checks.starts(pid, partition) != Some(finished);
            if begun && !done && !process.failed.contains(&(partition.clone(), finished)) {
                let text = format!("p{pid}: {partition} is finished up to {finished}, and no commit was tried");
                return self.checks.fail(Rule::RevokedInOrder, text);
            }
        }
    }

    /// A callback has ended.
    fn called_back(&mut self, pid: Pid, ticket: Ticket, kind: CallbackKind, partitions: &BTreeSet<TopicPartition>) {
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
                    process.failed.insert((partition.clone(), at.offset));
                    if ticket.is_none() && process.member.status().state == State::Revoking {
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

    fn raise(&mut self, pid: Pid, error: &GroupError, fatal: bool) {
        say!(self, "p{pid} raises {error}, fatal: {fatal}");
        match error {
            GroupError::MaxPollExceeded { .. } => self.checks.met.met(Situation::PollExpired),
            GroupError::FencedInstance { .. } => self.checks.met.met(Situation::Fenced),
            // What a coordinator reads back from the log after a failover is each member's metadata for the chosen assignor only:
            // who offers others is refused until the members have joined again.
            GroupError::InconsistentProtocol { .. } if self.mixed && self.loading_until > Duration::ZERO => {}
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
            GroupEvent::StateChanged { from, to } => {
                say!(self, "p{pid} {from:?} -> {to:?}");
                self.checks.state(pid, *from, *to);
            }
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
            GroupEvent::Synced { owned, gained, revoked, .. } => {
                self.rebalancing(pid, false);
                if *revoked > 0 && *owned > *gained {
                    self.checks.met.met(Situation::PartlyRevoked);
                }
            }
            GroupEvent::LeaseExpired => {
                say!(self, "p{pid} the lease is over");
                self.checks.met.met(Situation::LeaseExpired);
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
        if !process.commits.is_empty() {
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

    // ----- Metadata -------------------------------------------------------------------------------------------------------

    /// Asks for metadata; `again`: and in a while once more.
    pub(crate) fn refresh(&mut self, pid: Pid, again: bool) {
        let at = self.now + self.chance.ms(1, 30);
        self.push(at, Event::Metadata(pid, self.counts.clone()));
        if again {
            let at = self.now + self.chance.ms(3000, 8000);
            self.push(at, Event::Refresh(pid));
        }
    }

    pub(crate) fn metadata(&mut self, pid: Pid, counts: BTreeMap<Arc<str>, usize>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.ending != Ending::None {
            return;
        }
        let wanted = |topic: &Arc<str>| process.subscription.contains(topic) || process.group_topics.contains(topic);
        let counts = counts.into_iter().filter(|(topic, _)| wanted(topic)).collect();
        process.inbox.push_back(Input::Topics { counts });
        self.run_process(pid);
    }

    fn begin_assign(
        &mut self,
        pid: Pid,
        ticket: Ticket,
        assignor: String,
        members: Vec<(String, Option<String>, Vec<u8>)>,
    ) {
        let at = self.now + self.chance.ms(1, 100);
        self.push(at, Event::Assign(pid, ticket, assignor, members, self.counts.clone()));
    }

    pub(crate) fn assign(
        &mut self,
        pid: Pid,
        ticket: Ticket,
        assignor: &str,
        members: &[(String, Option<String>, Vec<u8>)],
        mut counts: BTreeMap<Arc<str>, usize>,
    ) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Ok(topics) = subscribed_topics(members) else {
            return self.checks.fail(Rule::Outcomes, format!("p{pid}: a subscription that cannot be read"));
        };
        process.group_topics = topics;
        counts.retain(|topic, _| process.group_topics.contains(topic));
        let racks: Topics = counts.iter().map(|(topic, count)| (topic.clone(), vec![Vec::new(); *count])).collect();
        let assignor = builtin(assignor).unwrap();
        let given = measured(&mut self.assigning, || perform(&*assignor, &racks, members));
        let outcome = given.map(|given| (given, counts.clone()));
        if let Err(error) = &outcome {
            self.checks.fail(Rule::Fatal, format!("p{pid} cannot assign: {error}"));
        }
        process.inbox.push_back(Input::Topics { counts });
        process.inbox.push_back(Input::Assigned { ticket, outcome });
        self.run_process(pid);
    }

    // ----- The user -------------------------------------------------------------------------------------------------------

    pub(crate) fn start(&mut self, slot: usize, beside: bool) {
        let runs = self.processes.values().any(|process| process.slot == slot && process.ending == Ending::None);
        if (runs && !beside) || self.ending {
            return;
        }
        self.last_pid += 1;
        let pid = self.last_pid;
        let plan = self.plan.slots[slot].clone();
        say!(self, "--- p{pid} starts in slot {slot}: {:?} {:?} {:?}", plan.assignors, plan.instance_id, plan.topics);
        let member = Member::new(self.plan.config(slot), self.plan.seed.wrapping_mul(31).wrapping_add(pid.into()));
        self.checks.started(pid, plan.instance_id, self.plan.session);
        let mut habits = plan.habits;
        if self.calm {
            habits.hurry();
        }
        self.processes.insert(pid, Process::new(slot, member, habits, self.now));
        self.subscribe_process(pid, plan.topics);
        self.refresh(pid, true);
        if self.calm {
            self.push(self.now, Event::CommitAll(pid));
        }
        if self.mixed {
            self.checks.met.met(Situation::Mixed);
        }
    }

    fn subscribe_process(&mut self, pid: Pid, topics: BTreeSet<Arc<str>>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.subscription = topics.clone();
        process.unsubscribed = false;
        process.inbox.push_back(Input::Subscribe { topics, from_pattern: false });
        self.run_process(pid);
    }

    pub(crate) fn subscribe(&mut self, slot: usize, topics: BTreeSet<Arc<str>>) {
        let now = self.now;
        let ready = |process: &Process| {
            process.slot == slot
                && process.ending == Ending::None
                && !process.unsubscribed
                && process.stopped_until <= now
        };
        let Some(pid) = self.processes.iter().find(|(_, process)| ready(process)).map(|(pid, _)| *pid) else { return };
        if self.processes[&pid].lanes.values().any(|lane| lane.open) {
            self.checks.met.met(Situation::SubscriptionChanged);
        }
        // What a static member's next process subscribes to beyond this one's, no leader would hear of before the next rebalance.
        self.plan.slots[slot].topics = topics.clone();
        self.subscribe_process(pid, topics);
        self.refresh(pid, false);
    }

    pub(crate) fn unsubscribe(&mut self, pid: Pid) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.ending == Ending::None && process.stopped_until <= now && !process.unsubscribed {
            process.unsubscribed = true;
            process.inbox.push_back(Input::Unsubscribe);
            self.run_process(pid);
        }
    }

    pub(crate) fn resubscribe(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        if process.ending == Ending::None && process.unsubscribed {
            self.checks.met.met(Situation::Resubscribed);
            let topics = process.subscription.clone();
            self.subscribe_process(pid, topics);
            self.refresh(pid, false);
        }
    }

    /// The process is to be closed, as soon as its user gets to it.
    pub(crate) fn close(&mut self, pid: Pid) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.ending == Ending::None {
            process.ending = Ending::Wanted;
        }
        if process.stopped_until <= now {
            self.run_process(pid);
        }
    }

    /// Gives the user's waiting threads what there is for them. Returns whether the machine has something to hear.
    fn serve(&mut self, pid: Pid) -> bool {
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
                .map(|(partition, span, _, to)| (partition.clone(), *span, Place { offset: *to, leader_epoch: 0 }))
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
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let may = !process.habits.on_revoked || process.is_calling();
        for (ticket, partitions) in std::mem::take(&mut process.settles) {
            if may && process.ledger.is_quiet(&partitions) {
                process.settled = now;
                let offsets = process.ledger.snapshot(Some(&partitions));
                process.inbox.push_back(Input::Settled { ticket, offsets });
            } else {
                process.settles.push((ticket, partitions));
            }
        }
    }

    /// A batch, as the gates allow it.
    fn hand_out(&mut self, pid: Pid) -> Vec<(TopicPartition, u64, i64, i64)> {
        let (now, bug) = (self.now, self.bug);
        let Some(process) = self.processes.get_mut(&pid) else { return Vec::new() };
        let leased = process.lease.is_none_or(|until| now < until) || bug == Some(Bug::IgnoreLease);
        let kept = process.rebalancing && bug == Some(Bug::PauseKept);
        let mut room = process.habits.batch_max as i64;
        let mut parts = Vec::new();
        for (partition, lane) in &mut process.lanes {
            let end = self.checks.end(partition);
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
            parts.push((partition.clone(), lane.span, position, to));
        }
        for (partition, _, from, to) in &parts {
            self.checks.delivered(pid, partition, *from, *to);
        }
        if !parts.is_empty() {
            self.meet_zombies(pid, &parts);
        }
        parts
    }

    /// Whether another process still works on records of what is handed out here.
    fn meet_zombies(&mut self, pid: Pid, parts: &[(TopicPartition, u64, i64, i64)]) {
        let taken: BTreeSet<TopicPartition> = parts.iter().map(|(partition, ..)| partition.clone()).collect();
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

    fn finish(&mut self, pid: Pid, index: usize, parts: &[(TopicPartition, u64, i64, i64)]) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for (partition, _, from, to) in parts {
            self.checks.cover(partition, *from, *to);
        }
        process.ledger.finish_held(index as u64);
        let current: BTreeSet<TopicPartition> = parts
            .iter()
            .filter(|(partition, span, ..)| process.lanes.get(partition).is_some_and(|lane| lane.span == *span))
            .map(|(partition, ..)| partition.clone())
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
        let (start, end) = (self.checks.logs[partition].start, self.checks.logs[partition].end);
        let to = start + self.chance.below((end - start) as usize + 1) as i64;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let span = process.new_span();
        let Some(lane) = process.lanes.get_mut(partition) else { return };
        if lane.position.replace(to).is_none() {
            return;
        }
        lane.span = span;
        process.ledger.restart(partition, span, Some(Place { offset: to, leader_epoch: -1 }));
        say!(self, "p{pid} seeks {partition} to {to}");
        // What was not finished before, by this thread or another, is jumped over.
        self.checks.sought(pid, partition, start, to);
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
                let Place { offset, leader_epoch } = place;
                Some((partition.clone(), CommitOffset { offset, leader_epoch, metadata: String::new() }))
            })
            .collect();
        if offsets.is_empty() {
            return false;
        }
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
            if !offsets.is_empty() {
                self.send_commit(pid, offsets, deadline, None);
                self.run_process(pid);
            }
            self.push(self.now + Duration::from_secs(1), Event::CommitAll(pid));
        }
    }
}

fn names(partitions: &BTreeSet<TopicPartition>) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
