//! Calls on their way to the broker and back, with what goes wrong on it.

use std::time::Duration;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::core::Action;
use monedula_protocol::error_code::ErrorCode;

use crate::checks::{Pid, Rule};
use crate::large::measured;
use crate::messages::{Answered, Asked};
use crate::network::{Link, Request};
use crate::planted::Bug;
use crate::process::Process;
use crate::sometimes::Situation;
use crate::trace::{brief, brief_answer, say};
use crate::world::{Event, STEPS, World};
use monedula_engine::group::{Call, CallError, CallId, GroupResponse, Input, Target};

impl World {
    pub(crate) fn send(&mut self, pid: Pid, id: CallId, target: Target, mut call: Call) {
        let now = self.now;
        if let Some(process) = self.processes.get_mut(&pid) {
            if let (Some(bug), Some(heartbeat)) = (self.bug, call.heartbeat_mut()) {
                bug.misstate(heartbeat, process.lanes.values().any(|lane| lane.settling));
            }
            process.calls.insert(id, (now, call.commit().is_some()));
        }
        let node = match target {
            Target::Any { attempt } => attempt as i32 % self.plan.nodes + 1,
            Target::Coordinator { node_id } => node_id,
        };
        say!(self, "p{pid} -> n{node} #{id} {}", brief(&call));
        if let Some((generation, offsets)) = call.commit() {
            self.checks.commits(pid, generation, offsets);
            let skips = match self.bug {
                Some(Bug::SkipCommit) => self.chance.odds(300),
                Some(Bug::SkipKnownCommit) => {
                    offsets.iter().all(|(partition, at)| self.checks.is_known(partition, at.offset))
                }
                _ => false,
            };
            if let Some(answer) = call.committed().filter(|_| skips) {
                return self.outcome_later(pid, id, answer);
            }
        }
        let extra = call.extra_timeout();
        self.push(now + self.plan.request_timeout + extra, Event::Timeout(pid, id));
        if self.stopped_nodes.contains(&node) {
            // In some cases the driver waits for its backoff first, because an attempt to connect has just failed.
            let backoff = if self.chance.odds(300) { self.chance.ms(50, 2000) } else { Duration::ZERO };
            let at = now + self.latency() + backoff;
            return self.push(at, Event::Refused(pid, id));
        }
        let versions = call.versions();
        let by_name = self.bug == Some(Bug::CommitByName) && call.commit().is_some();
        let cap = if by_name { *versions.start() } else { self.plan.version_cap };
        let version = cap.clamp(*versions.start(), *versions.end());
        let link = self.network.link(pid, node, call.purpose(), now);
        let latency = self.latency();
        let hole = self.network.black_holes.get(&(pid, node)).copied().unwrap_or_default();
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.last_correlation_id += 1;
        let correlation_id = connection.last_correlation_id;
        let frame = match call.encode(version, correlation_id, Some("simulation")) {
            Ok(frame) => Bytes::from(frame).slice(4..),
            Err(error) => return self.checks.fail(Rule::Outcomes, format!("p{pid}: {call:?} v{version}: {error}")),
        };
        let request = Request { id, call, version, correlation_id, frame };
        connection.waiting.push_back(request.clone());
        connection.there = (now + latency).max(connection.there).max(connection.stalled_until).max(hole);
        let at = connection.there;
        self.push(at, Event::Arrive(link, Box::new(request)));
    }

    /// An answer that nobody gave.
    fn outcome_later(&mut self, pid: Pid, id: CallId, answer: GroupResponse) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.calls.remove(&id);
            process.inbox.push_back(Input::Answer { id, outcome: Ok(answer) });
            self.checks.commit_over(pid);
        }
    }

    pub(crate) fn latency(&mut self) -> Duration {
        let slow = !self.calm && self.chance.odds(self.plan.slow_frames);
        let base = Duration::from_micros(self.chance.between(100, 3000) as u64);
        base + if slow { self.chance.ms(1, self.plan.slow_ms) } else { Duration::ZERO }
    }

    pub(crate) fn arrive(&mut self, link: Link, request: Request) {
        let (ms, now) = (self.ms(), self.now);
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        if !connection.broker_open {
            return;
        }
        let node = connection.node;
        if self.stopped_nodes.contains(&node) {
            connection.broker_open = false;
            return self.push(now, Event::Lost(link));
        }
        if connection.broker.is_none() {
            let broker = self.core.connected(ms, NodeId(node), "127.0.0.1");
            connection.broker = Some(broker);
            self.network.at_broker(broker, link);
        }
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.arrived.push_back(request);
        if !connection.busy {
            self.work(link);
            self.drain();
        }
    }

    /// Gives the core the next request of a connection.
    fn work(&mut self, link: Link) {
        let ms = self.ms();
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        let (Some(broker), Some(request)) = (connection.broker, connection.arrived.front()) else { return };
        let frame = request.frame.clone();
        let joins = request.call.heartbeat().is_some_and(|call| call.epoch == 0);
        connection.busy = true;
        if !connection.client_open {
            self.checks.met.met(Situation::LateRequest);
        }
        if joins && self.plan.mixes_protocols() {
            self.note_accounts();
        }
        measured(&mut self.coordinator_busy, || self.core.request(ms, broker, &frame));
    }

    /// Takes what the core has to say.
    pub(crate) fn drain(&mut self) {
        for _ in 0..STEPS {
            let replies: Vec<_> = self.core.drain().collect();
            if replies.is_empty() {
                return;
            }
            for reply in replies {
                let Some(link) = self.network.of_broker(reply.connection) else { continue };
                match reply.action {
                    Action::Send(pieces) => self.reply(link, Bytes::from(pieces.concat()).slice(4..)),
                    Action::Close(reason) => {
                        say!(self, "link {link} is closed by its node: {reason}");
                        self.broker_closes(link);
                    }
                    other => self.checks.fail(Rule::Outcomes, format!("the broker does {other:?}")),
                }
            }
        }
    }

    fn reply(&mut self, link: Link, frame: Bytes) {
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        let (pid, node, late) = (connection.pid, connection.node, !connection.client_open);
        connection.busy = false;
        let Some(request) = connection.arrived.pop_front() else { return };
        let answer = match request.call.decode(&frame, request.version) {
            Ok(answer) => answer,
            Err(error) => return self.checks.fail(Rule::Outcomes, format!("{}: {error}", request.call.api())),
        };
        say!(self, "n{node} -> p{pid} #{} {}{}", request.id, brief_answer(&answer), if late { ", late" } else { "" });
        self.checks.served(pid, request.id, &request.call, &answer, late);
        if let Some(id) = request.call.joins_as().filter(|_| answer.code() == ErrorCode::None) {
            self.checks.took(pid, id);
        }
        for code in answer.codes() {
            self.justify(pid, request.id, &request.call, code);
        }
        self.mislead(pid, &request, &answer, late);
        self.meet(&request.call, &answer);
        self.judge_group(&request.call, &answer);
        let api = request.call.api();
        if let Some(index) = self.lose.iter().position(|lost| *lost == api) {
            self.lose.remove(index);
            let lost = match (api, answer.code()) {
                ("JoinGroup", ErrorCode::None) => Some(Situation::LostJoinAnswer),
                ("SyncGroup", ErrorCode::None) => Some(Situation::LostSyncAnswer),
                ("ConsumerGroupHeartbeat", ErrorCode::None) => Some(Situation::LostHeartbeatAnswer),
                ("OffsetCommit", _) => Some(Situation::LostCommitAnswer),
                _ => None,
            };
            lost.into_iter().for_each(|lost| self.checks.met.met(lost));
            say!(self, "the answer to #{} is lost", request.id);
            return self.broker_closes(link);
        }
        let mut latency = self.latency();
        if let Some(index) = self.delay.iter().position(|(delayed, _)| *delayed == api) {
            latency += self.delay.remove(index).1;
        }
        let hole = self.network.black_holes.get(&(pid, node)).copied().unwrap_or_default();
        let now = self.now;
        let Some(connection) = self.network.links.get_mut(&link) else { return };
        connection.back = (now + latency).max(connection.back).max(connection.stalled_until).max(hole);
        let at = connection.back;
        self.push(at, Event::Answered(link, request.correlation_id, frame));
        self.work(link);
    }

    /// What a coordinator believes wrongly, or makes a member believe, because it heard it late, or loads.
    fn mislead(&mut self, pid: Pid, request: &Request, answer: &GroupResponse, late: bool) {
        let said = request.call.heartbeat().filter(|call| call.owned.is_some() || call.epoch < 0);
        if let Some(said) = said.filter(|_| late && answer.code() == ErrorCode::None) {
            self.checks.met.met(Situation::MisledByLateRequest);
            // A member that joined again under another id is not concerned.
            let is_meant = |process: &Process| process.member.status().member_id == said.member_id;
            if self.processes.get(&pid).is_some_and(is_meant) {
                let owns = self.checks.names_of(said.owned.iter().flatten().filter(|_| said.epoch >= 0));
                self.checks.misled(pid, &owns);
            }
        }
        let blindly = matches!(answer, GroupResponse::Heartbeat { code: ErrorCode::None });
        let waits = self.processes.get(&pid).and_then(|process| process.calls.get(&request.id));
        if let Some((sent, _)) = waits.filter(|_| blindly && self.now <= self.loading_until) {
            self.checks.met.met(Situation::BlindHeartbeat);
            self.checks.blind(pid, request.id, *sent);
        }
    }

    fn broker_closes(&mut self, link: Link) {
        let ms = self.ms();
        if let Some(broker) = self.network.close_broker(link) {
            self.core.disconnected(ms, broker);
        }
        let at = self.now + self.latency();
        self.push(at, Event::Lost(link));
    }

    pub(crate) fn fin(&mut self, link: Link) {
        let ms = self.ms();
        if let Some(broker) = self.network.close_broker(link) {
            self.core.disconnected(ms, broker);
        }
        self.network.sweep();
    }

    pub(crate) fn answered(&mut self, link: Link, correlation_id: i32, frame: &Bytes) {
        let Some(connection) = self.network.links.get_mut(&link).filter(|connection| connection.client_open) else {
            return;
        };
        let pid = connection.pid;
        let Some(request) = connection.waiting.pop_front() else { return };
        if request.correlation_id != correlation_id {
            return self.checks.fail(Rule::Outcomes, format!("p{pid}: answers are out of order"));
        }
        let Ok(answer) = request.call.decode(frame, request.version) else { return };
        let answer = self.mistaken(pid, &request.call, answer);
        self.outcome(pid, request.id, Ok(answer));
    }

    /// What a planted bug makes of an answer.
    fn mistaken(&mut self, pid: Pid, call: &Call, answer: GroupResponse) -> GroupResponse {
        let Some(bug) = self.bug else { return answer };
        let excused = |excuse| self.checks.excused.contains(&(excuse, Some(pid), None));
        let answer = bug.mistake(call, answer, excused);
        match bug {
            Bug::Refused(code) if !self.calm && self.is_excusable(call, code) && self.chance.odds(50) => {
                call.refused(code).unwrap_or(answer)
            }
            _ => answer,
        }
    }

    /// Whether an error was ever excused in such a plan.
    fn is_excusable(&self, call: &Call, code: ErrorCode) -> bool {
        match code {
            ErrorCode::UnknownServerError => self.plan.mixes_protocols(),
            ErrorCode::InconsistentGroupProtocol => self.mixed && self.loading_until > Duration::ZERO,
            _ => call.identity().is_some_and(|(_, instance_id)| instance_id.is_some()),
        }
    }

    /// A member waits no longer for an answer. What was sent stays on its way.
    pub(crate) fn cancel(&mut self, pid: Pid, id: CallId) {
        let is_sent = self.network.waits_on(pid, |request| request.id == id).is_some();
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.calls.remove(&id).is_none() {
            return;
        }
        process.cancelled.insert(id);
        let reason = "it was cancelled".to_owned();
        let error = if is_sent { CallError::Lost(reason) } else { CallError::Unsent(reason) };
        say!(self, "p{pid} #{id} {error:?}");
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.inbox.push_back(Input::Answer { id, outcome: Err(error) });
    }

    /// A call has its outcome.
    pub(crate) fn outcome(&mut self, pid: Pid, id: CallId, outcome: Result<GroupResponse, CallError>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.cancelled.remove(&id) {
            return;
        }
        let Some((sent, commit)) = process.calls.remove(&id) else {
            return self.checks.fail(Rule::Outcomes, format!("p{pid}: #{id} has two outcomes"));
        };
        if commit {
            self.checks.commit_over(pid);
        }
        if outcome.as_ref().is_ok_and(GroupResponse::proves_membership) {
            self.checks.proved(pid, id, sent);
        }
        let heard = matches!(outcome, Ok(GroupResponse::ConsumerGroupHeartbeat { code: ErrorCode::None, .. }));
        if let Ok(answer) = &outcome {
            process.answered.extend(answer.codes().into_iter().map(|code| (code, id)));
        }
        process.inbox.push_back(Input::Answer { id, outcome });
        self.run_process(pid);
        if heard {
            self.checks.heard(pid, sent);
        }
    }

    /// A process closes its end of a connection: what it waited for is lost. What was sent already may arrive all the same.
    pub(crate) fn close_link(&mut self, link: Link, reason: &str) {
        let Some(connection) = self.network.links.get(&link).filter(|connection| connection.client_open) else {
            return;
        };
        let (pid, there) = (connection.pid, connection.there);
        let lost = self.network.close_client(link);
        let soon = self.now + self.latency();
        let at = if self.chance.odds(500) { there.max(soon) + Duration::from_millis(1) } else { soon };
        self.push(at, Event::Fin(link));
        for request in lost {
            say!(self, "p{pid} #{} {} is lost: {reason}", request.id, request.call.api());
            let nothing = request.call.found_nothing().filter(|_| self.bug == Some(Bug::ResetOnError));
            let outcome = nothing.ok_or_else(|| CallError::Lost(reason.into()));
            self.outcome(pid, request.id, outcome);
        }
    }

    /// A process is no more.
    pub(crate) fn vanish(&mut self, pid: Pid) {
        self.processes.remove(&pid);
        for link in self.network.of_process(pid) {
            self.close_link(link, "the process is gone");
        }
    }
}
