//! The driver around a process's machines, as in the client: gives them answers and time, and does what they say.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use monedula_engine::TopicPartition;
use monedula_engine::group::{self, CallError, Input, Subscription, Target, TopicInfo};
use monedula_engine::share::{AcknowledgeError, AcknowledgeType, Acknowledgement, HeldPart, ShareOutput};
use monedula_protocol::compression::{Decompressor, MAX_OUTPUT_BYTES};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::Batches;

use crate::calls::{Answer, Body};
use crate::network::{Link, Pid};
use crate::plan::TOPICS;
use crate::process::{Asked, FetchedRows};
use crate::rules::{Bug, Rule};
use crate::world::{Event, World};

/// How often a process may go on at one and the same time.
const ROUNDS: u32 = 500;

impl World {
    /// Lets a process do all that is due.
    pub(crate) fn run_process(&mut self, pid: Pid) {
        let now = self.now;
        for _ in 0..ROUNDS {
            let Some(process) = self.processes.get(&pid).filter(|process| process.stopped_until <= now) else { return };
            if process.is_done {
                self.figures.met("closed", 1);
                return self.vanish(pid);
            }
            let mut goes_on = self.serve(pid);
            self.send_due(pid);
            self.tell(pid, Input::Tick);
            if let Some(process) = self.processes.get_mut(&pid) {
                process.sessions.tick(now);
            }
            goes_on |= self.take_outputs(pid, None);
            goes_on |= self.send_requests(pid);
            goes_on |= self.take_outputs(pid, None);
            if self.violation.is_some() || !goes_on {
                return;
            }
        }
        self.fail(Rule::Spins, format!("p{pid} goes on and on"));
    }

    /// Gives the member an input.
    pub(crate) fn tell(&mut self, pid: Pid, input: Input) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.member.handle(now, input);
        while let Some(output) = self.processes.get_mut(&pid).and_then(|process| process.member.poll()) {
            match output {
                group::Output::Call { id, target, call } => {
                    let node = match target {
                        Target::Any { attempt } => attempt as i32 % self.plan.nodes + 1,
                        Target::Coordinator { node_id } => node_id,
                    };
                    if let Some(process) = self.processes.get_mut(&pid) {
                        process.calls.insert(id);
                    }
                    self.send(pid, node, Body::Call(id, call));
                }
                group::Output::Assigned { .. } | group::Output::Released { .. } => {
                    let Some(process) = self.processes.get_mut(&pid) else { return };
                    process.sessions.assign(process.member.assigned().clone());
                }
                group::Output::RefreshMetadata => self.want_metadata(pid),
                group::Output::Raise { error, fatal: true } => self.fail(Rule::Fatal, format!("p{pid}: {error}")),
                group::Output::Closed => {
                    if let Some(process) = self.processes.get_mut(&pid) {
                        process.is_done = true;
                    }
                }
                output => self.trace(|| format!("p{pid} {output:?}")),
            }
        }
    }

    /// Metadata is as old as the time that its answer took.
    pub(crate) fn want_metadata(&mut self, pid: Pid) {
        let at = self.now + self.chance.ms(1, 60);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if !std::mem::replace(&mut process.awaits_metadata, true) {
            let cluster = self.cluster.clone();
            self.push(at, Event::Metadata(pid, cluster));
        }
    }

    pub(crate) fn metadata(&mut self, pid: Pid, cluster: std::sync::Arc<monedula_engine::cluster::Cluster>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.awaits_metadata = false;
        process.sessions.update_metadata(&cluster);
        process.cluster = cluster.clone();
        let topics: BTreeMap<_, _> = cluster
            .topics
            .iter()
            .map(|(name, topic)| (name.clone(), TopicInfo { id: topic.id, partitions: topic.partitions.len() }))
            .collect();
        self.tell(pid, Input::Topics { topics });
        self.run_process(pid);
    }

    pub(crate) fn subscribe(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        let topics = if process.habits.reads_both { &TOPICS[..] } else { &TOPICS[..1] };
        let topics = topics.iter().map(|topic| (*topic).into()).collect();
        self.tell(pid, Input::Subscribe(Subscription::Topics(topics)));
        self.run_process(pid);
    }

    /// Renewals, decisions whose locks end, and the release of rows that nobody asks for.
    fn send_due(&mut self, pid: Pid) {
        let (now, bug) = (self.now, self.bug);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let mut acknowledgements = Vec::new();
        if bug != Some(Bug::KeepRows) && bug != Some(Bug::IgnoreDeadline) {
            process.queue.retain(|rows| rows.part.deadline > now);
        }
        if !process.is_calling() && bug != Some(Bug::KeepRows) {
            while let Some(place) = process.queue.iter().position(|rows| rows.release_due() <= now) {
                let Some(rows) = process.queue.remove(place) else { break };
                let ticket = process.held.new_ticket();
                acknowledgements.push((rows.acknowledgement(ticket, AcknowledgeType::Release), None));
                for (offset, _) in &rows.offsets {
                    let row = (rows.part.partition.clone(), *offset);
                    process.decided.insert(row, (rows.request, Some(AcknowledgeType::Release)));
                }
                self.figures.met("released unread", rows.offsets.len());
            }
        }
        if process.held.due().is_some_and(|due| due <= now) && bug != Some(Bug::SendLate) {
            acknowledgements.extend(process.held.take_decided(None, now));
        }
        let renewals = process.held.due_renewals(now);
        self.acknowledge(pid, acknowledgements);
        self.renew(pid, renewals);
    }

    pub(crate) fn acknowledge(&mut self, pid: Pid, all: Vec<(Acknowledgement, Option<AcknowledgeError>)>) {
        let (ms, now) = (self.ms(), self.now);
        for (acknowledgement, error) in all {
            let Some(process) = self.processes.get_mut(&pid) else { return };
            process.tickets.insert(acknowledgement.ticket, (ms, acknowledgement.clone()));
            match error {
                Some(error) => self.acknowledged(pid, &acknowledgement, Err(error)),
                None if self.bug == Some(Bug::NeverAcknowledge) && acknowledgement.ticket % 20 == 7 => {
                    self.acknowledged(pid, &acknowledgement, Ok(now));
                }
                None => process.sessions.acknowledge(acknowledgement),
            }
        }
    }

    pub(crate) fn renew(&mut self, pid: Pid, renewals: Vec<Acknowledgement>) {
        let ms = self.ms();
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for renewal in renewals {
            process.tickets.insert(renewal.ticket, (ms, renewal.clone()));
            process.sessions.renew(renewal);
        }
    }

    /// Sends what is due: fetches first, which take acknowledgements along.
    fn send_requests(&mut self, pid: Pid) -> bool {
        let (now, bug) = (self.now, self.bug);
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        let is_empty = process.queue.iter().all(|rows| rows.part.deadline <= now);
        let ahead = !process.is_calling() && process.fetches_ahead && !self.plan.is_strict;
        let is_wanted = is_empty && (process.is_calling() || ahead);
        process.sessions.set_wanted(is_wanted || bug == Some(Bug::AlwaysFetch));
        let nodes = process.sessions.ready_nodes(now);
        if ahead && !nodes.is_empty() {
            process.fetches_ahead = false;
        }
        if !nodes.is_empty() && !is_wanted {
            self.fail(Rule::Unwanted, format!("p{pid} asks {nodes:?}, and nobody waits"));
        }
        let mut has_sent = false;
        for node in nodes {
            let Some(process) = self.processes.get_mut(&pid) else { return false };
            let mut plan = process.sessions.fetch(node, ahead, now);
            if bug == Some(Bug::NeverForget) {
                plan.forgotten.clear();
            }
            self.send_share(pid, node, Body::Fetch(plan));
            has_sent = true;
        }
        while let Some((node, plan)) =
            self.processes.get_mut(&pid).and_then(|process| process.sessions.acknowledge_next(now))
        {
            has_sent = true;
            if plan.is_renewal {
                self.figures.met("renewed", 1);
            }
            match bug {
                Some(Bug::NeverRenew) if plan.is_renewal => self.pretend(pid, node, &plan.partitions),
                Some(Bug::NeverClose) if plan.session_epoch < 0 => self.pretend(pid, node, &plan.partitions),
                _ => self.send_share(pid, node, Body::Acknowledge(plan)),
            }
        }
        has_sent
    }

    fn send_share(&mut self, pid: Pid, node: i32, mut body: Body) {
        let (bug, tick) = (self.bug, self.last_request);
        let (epoch, partitions, has_batches) = match &mut body {
            Body::Fetch(plan) => (&mut plan.session_epoch, &mut plan.partitions, true),
            Body::Acknowledge(plan) => (&mut plan.session_epoch, &mut plan.partitions, !plan.is_renewal),
            Body::Call(..) => return,
        };
        if bug == Some(Bug::RaiseTwice) && *epoch > 0 && partitions.iter().any(|it| !it.batches.is_empty()) {
            *epoch += 1;
        }
        if bug == Some(Bug::AcceptReleases) && tick % 5 == 0 && has_batches {
            let types = partitions.iter_mut().flat_map(|it| &mut it.batches).flat_map(|batch| &mut batch.types);
            types
                .filter(|kind| **kind == AcknowledgeType::Release.id())
                .for_each(|kind| *kind = AcknowledgeType::Accept.id());
        }
        let planned = partitions.clone();
        self.judge_decisions(pid, &planned);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let assigned = process.member.assigned().keys().cloned().collect();
        let request = self.send(pid, node, body);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.in_flight.insert(node, Asked { request, assigned });
        }
    }

    /// A request that came to an end without an answer.
    pub(crate) fn request_lost(&mut self, pid: Pid, node: i32, body: Body, reason: &str) {
        let now = self.now;
        self.trace(|| format!("p{pid} n{node} {} is lost: {reason}", body.api()));
        let (Body::Fetch(_) | Body::Acknowledge(_)) = &body else {
            let Body::Call(id, _) = body else { return };
            return self.called(pid, id, Err(CallError::Lost(reason.into())));
        };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if let Some(asked) = process.in_flight.remove(&node) {
            process.told.insert((node, None), asked.request);
        }
        let planned = match &body {
            Body::Fetch(plan) => &plan.partitions,
            Body::Acknowledge(plan) => &plan.partitions,
            Body::Call(..) => return,
        };
        match self.bug {
            Some(Bug::LostIsGood) if planned.iter().any(|it| !it.batches.is_empty()) => {
                self.pretend(pid, node, planned)
            }
            _ => process.sessions.lost(node, reason, now),
        }
        self.take_outputs(pid, None);
    }

    pub(crate) fn called(&mut self, pid: Pid, id: group::CallId, outcome: Result<group::GroupResponse, CallError>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.calls.remove(&id) {
            self.tell(pid, Input::Answer { id, outcome });
        }
    }

    pub(crate) fn answered(&mut self, link: Link, id: u64, frame: &Bytes) {
        let (now, bug) = (self.now, self.bug);
        let Some(connection) = self.network.links.get_mut(&link).filter(|connection| connection.client_open) else {
            return;
        };
        let (pid, node) = (connection.pid, connection.node);
        let Some(request) = connection.waiting.pop_front() else { return };
        if request.id != id {
            return self.fail(Rule::Outcome, format!("p{pid}: answers are out of order"));
        }
        let Some(mut answer) = request.answer(frame) else {
            if let (Body::Call(id, _), Some(answer)) = (&request.body, request.called(frame)) {
                self.trace(|| format!("p{pid} #{id} {answer:?}"));
                self.called(pid, *id, Ok(answer));
            }
            return self.run_process(pid);
        };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(asked) = process.in_flight.remove(&node) else { return };
        if answer.share.code != ErrorCode::None {
            process.told.insert((node, None), asked.request);
        }
        let has_moved = |code| matches!(code, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
        let moved =
            answer.share.partitions.iter().filter(|it| matches!(request.body, Body::Fetch(_)) && has_moved(it.code));
        for it in moved {
            let partition = process.cluster.topics.iter().find(|(_, topic)| topic.id == it.topic_id);
            if let Some((topic, _)) = partition {
                process.told.insert((node, Some(TopicPartition::new(topic.clone(), it.partition))), asked.request);
            }
        }
        if bug == Some(Bug::LockFromAnswer) {
            answer.share.lock_timeout += Duration::from_millis(200);
        }
        process.sessions.answered(node, &answer.share, now);
        self.take_outputs(pid, Some((&answer, &asked)));
        self.run_process(pid);
    }

    /// A good answer that nobody gave.
    fn pretend(&mut self, pid: Pid, node: i32, planned: &[monedula_engine::share::PlannedPartition]) {
        use monedula_engine::share::{FetchedPartition, ShareAnswer};
        let partitions = planned.iter().map(|it| FetchedPartition {
            topic_id: it.topic_id,
            partition: it.partition,
            code: ErrorCode::None,
            acknowledge_code: ErrorCode::None,
            leader: (-1, -1),
            acquired: Vec::new(),
        });
        let answer =
            ShareAnswer { code: ErrorCode::None, lock_timeout: self.plan.lock, partitions: partitions.collect() };
        let now = self.now;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.sessions.answered(node, &answer, now);
        }
    }

    /// Does what the sessions say. Returns whether they said anything.
    fn take_outputs(&mut self, pid: Pid, answer: Option<(&Answer, &Asked)>) -> bool {
        let mut has_any = false;
        while let Some(output) = self.processes.get_mut(&pid).and_then(|process| process.sessions.poll()) {
            has_any = true;
            self.trace(|| format!("p{pid} {output:?}"));
            match output {
                ShareOutput::Acquired { session, partition, topic_id, index, acquired, deadline, lock_timeout } => {
                    let Some((answer, asked)) = answer else { continue };
                    if let Some(process) = self.processes.get_mut(&pid) {
                        let is_again = |rows: &FetchedRows| {
                            rows.part.partition == partition
                                && rows.offsets.iter().any(|(at, _)| acquired.iter().any(|it| it.overlaps(*at, *at)))
                        };
                        process.queue.retain(|rows| !is_again(rows));
                        process.held.acquired_again(&partition, &acquired);
                    }
                    let (runs, gaps) = (Vec::new(), Vec::new());
                    let part = HeldPart { session, partition, topic_id, runs, gaps, deadline, lock_timeout };
                    let records = offsets_of(&answer.records[index]);
                    let offsets = acquired.iter().flat_map(|range| range.first..=range.last);
                    let offsets = offsets.map(|offset| (offset, records.binary_search(&offset).is_ok())).collect();
                    let rows = FetchedRows { part, request: asked.request, offsets };
                    self.acquired(pid, rows, asked);
                }
                ShareOutput::Acknowledged { acknowledgement, outcome } => {
                    self.acknowledged(pid, &acknowledgement, outcome);
                }
                ShareOutput::LocksLost { session, partition } => {
                    self.figures.met("locks lost", 1);
                    let Some(process) = self.processes.get_mut(&pid) else { return false };
                    if self.bug != Some(Bug::IgnoreLoss) {
                        process.queue.retain(|rows| {
                            rows.part.session != session
                                || partition.as_ref().is_some_and(|partition| *partition != rows.part.partition)
                        });
                    }
                    process.held.locks_lost(session, partition.as_ref());
                }
                ShareOutput::RefreshMetadata => self.want_metadata(pid),
                ShareOutput::LeaderHint { partition, leader, leader_epoch } => {
                    let Some(process) = self.processes.get_mut(&pid) else { return false };
                    let mut cluster = (*process.cluster).clone();
                    if cluster.hint_leader(&partition, leader, leader_epoch) {
                        process.cluster = std::sync::Arc::new(cluster);
                        process.sessions.update_metadata(&process.cluster);
                    }
                }
                ShareOutput::Denied { partition, code } => {
                    self.fail(Rule::Fatal, format!("p{pid}: {partition:?} is denied: {code:?}"));
                }
                ShareOutput::Retried { .. } => {}
                ShareOutput::Closed => {
                    let deadline = self.processes.get(&pid).and_then(|process| process.closing).unwrap_or_default();
                    self.judge_closed(pid);
                    self.tell(pid, Input::Close { deadline, leave: true });
                }
            }
        }
        has_any
    }
}

/// The offsets of the records in these bytes.
fn offsets_of(records: &[u8]) -> Vec<i64> {
    let mut offsets = Vec::new();
    for batch in Batches::new(records).map(Result::unwrap) {
        let codec = batch.header.compression();
        let payload = Decompressor::new().decompress_to_vec(codec, batch.payload(), MAX_OUTPUT_BYTES).unwrap();
        offsets.extend(batch.records(&payload).map(|record| record.unwrap().offset));
    }
    offsets
}
