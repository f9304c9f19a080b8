//! The simulation: time, what happens next, and the broker's end of the network.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_broker::core::{Action, Core};
use monedula_broker::settings::Settings;
use monedula_engine::group::{Answer, Call, CallError, CallId, Input, Target, Ticket};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;

use crate::chance::Chance;
use crate::checks::{Checks, Pid, Rule};
use crate::large::measured;
use crate::network::{Link, Network, Request};
use crate::plan::{Disruption, GROUP, Plan};
use crate::planted::Bug;
use crate::process::Process;
use crate::sometimes::Situation;

/// The broker's time at the start.
const START_MS: i64 = 1_700_000_000_000;

/// More steps than this are a loop.
const STEPS: usize = 3_000_000;

/// How often a machine may be woken at one and the same time.
const WAKES: u32 = 200;

/// The most partitions that a topic grows to.
const PARTITIONS: usize = 12;

/// What happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request arrives at its node.
    Arrive(Link, Request),
    /// A node learns that a connection was closed.
    Fin(Link),
    /// An answer arrives.
    Answered(Link, i32, Bytes),
    /// A process learns that a connection is gone.
    Lost(Link),
    /// Nobody listens at a node.
    Refused(Pid, CallId),
    /// A call waited long enough.
    Timeout(Pid, CallId),
    /// A thread of a user's is done with what it did in that turn.
    User(Pid, usize, u64),
    /// Metadata comes in.
    Metadata(Pid, BTreeMap<Arc<str>, usize>),
    /// A leader has what it needs to assign.
    Assign(Pid, Ticket, String, Vec<(String, Option<String>, Vec<u8>)>, BTreeMap<Arc<str>, usize>),
    /// An offset by policy is looked up: the earliest, or the latest.
    Resolve(Pid, TopicPartition, u64, bool),
    /// The next look at metadata.
    Refresh(Pid),
    Resubscribe(Pid),
    /// A user who commits by hand commits what is finished.
    CommitAll(Pid),
    Disrupt(usize),
    Start(usize),
    StartNode(i32),
    Produce,
    /// From here on all is well.
    Calm,
    /// Whether all is as it should be.
    Look,
}

#[derive(Debug)]
struct Due(Now, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// What is due next.
enum Next {
    Event,
    Core,
    Member(Pid),
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    pub(crate) tracing: bool,
    pub(crate) now: Now,
    pub(crate) chance: Chance,
    pub(crate) checks: Checks,
    pub(crate) processes: BTreeMap<Pid, Process>,
    pub(crate) counts: BTreeMap<Arc<str>, usize>,
    pub(crate) calm: bool,
    /// Whether members offer different assignors.
    pub(crate) mixed: bool,
    pub(crate) ending: bool,
    pub(crate) network: Network,
    core: Core,
    queue: BinaryHeap<Reverse<Due>>,
    pushed: u64,
    pub(crate) last_pid: Pid,
    stopped_nodes: BTreeSet<i32>,
    lose: Vec<&'static str>,
    delay: Vec<(&'static str, Duration)>,
    give_up_at: Now,
    /// When static members that did not converge are made to rebalance.
    nudge_at: Now,
    /// Until when a coordinator may load, and answers heartbeats blindly.
    pub(crate) loading_until: Now,
    pub(crate) steps: usize,
    /// What the machines, the coordinator and assigning took of the processor's time.
    pub(crate) members_busy: Duration,
    pub(crate) coordinator_busy: Duration,
    pub(crate) assigning: Duration,
}

/// Prints a line of the trace, if there is one.
macro_rules! say {
    ($world:expr, $($what:tt)*) => {
        if $world.tracing {
            println!("{:>9.3}  {}", $world.now.as_secs_f64(), format_args!($($what)*));
        }
    };
}
pub(crate) use say;

impl World {
    pub(crate) fn new(plan: Plan, bug: Option<Bug>, tracing: bool) -> Self {
        let mut settings = Settings {
            nodes: plan.nodes as u16,
            seed: plan.seed,
            coordinator_load_ms: plan.load_ms,
            ..Settings::default()
        };
        let (delay, nodes) = (plan.initial_delay_ms.to_string(), plan.nodes.to_string());
        for (name, value) in [
            ("offsets.topic.num.partitions", "1"),
            ("default.replication.factor", nodes.as_str()),
            ("group.min.session.timeout.ms", "1000"),
            ("group.initial.rebalance.delay.ms", &delay),
        ] {
            settings.kafka.set(name, value).unwrap();
        }
        let core = Core::new(settings, START_MS).unwrap();
        let mut world = Self {
            bug,
            tracing,
            now: Now::ZERO,
            chance: Chance::new(plan.seed ^ 0x5eed),
            checks: Checks::default(),
            processes: BTreeMap::new(),
            counts: BTreeMap::new(),
            calm: false,
            mixed: plan.slots.iter().any(|slot| slot.assignors != plan.slots[0].assignors),
            ending: false,
            network: Network::default(),
            core,
            queue: BinaryHeap::new(),
            pushed: 0,
            last_pid: 0,
            stopped_nodes: BTreeSet::new(),
            lose: Vec::new(),
            delay: Vec::new(),
            give_up_at: plan.calm + 3 * (plan.max_poll + plan.session + plan.request_timeout) + Duration::from_secs(60),
            nudge_at: match plan.slots.iter().any(|slot| slot.instance_id.is_some()) {
                true => plan.calm + 2 * (plan.max_poll + plan.session + plan.request_timeout) + Duration::from_secs(40),
                false => Now::MAX,
            },
            loading_until: Now::ZERO,
            plan,
            steps: 0,
            members_busy: Duration::ZERO,
            coordinator_busy: Duration::ZERO,
            assigning: Duration::ZERO,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for (topic, partitions, start) in self.plan.topics.clone() {
            let create = Command::CreateTopic {
                topic: topic.to_string(),
                partitions: Some(partitions as i32),
                replicas: None,
                config: BTreeMap::new(),
            };
            assert!(self.control(create), "{topic} cannot be made");
            for index in 0..partitions {
                self.checks.add_log(TopicPartition::new(topic.clone(), index as i32), start);
            }
            self.counts.insert(topic, partitions);
        }
        for index in 0..self.plan.disruptions.len() {
            let (at, what) = &self.plan.disruptions[index];
            let event = match what {
                Disruption::Start(slot) => Event::Start(*slot),
                _ => Event::Disrupt(index),
            };
            self.push(*at, event);
        }
        if self.plan.produces {
            self.push(Duration::from_millis(1), Event::Produce);
        }
        self.push(self.plan.calm, Event::Calm);
    }

    /// Runs to the end, or to the first broken rule.
    pub(crate) fn run(&mut self) {
        self.run_until(Now::MAX);
    }

    /// The same as far as that time.
    pub(crate) fn run_until(&mut self, until: Now) {
        while self.checks.violation.is_none() {
            let Some((at, next)) = self.next().filter(|(at, _)| *at <= until) else { return };
            self.now = self.now.max(at);
            self.checks.at(self.now);
            self.steps += 1;
            if self.steps > STEPS {
                return self.checks.fail(Rule::Spins, format!("after {STEPS} steps no end is in sight"));
            }
            match next {
                Next::Event => {
                    let Some(Reverse(Due(_, _, event))) = self.queue.pop() else { return };
                    self.happen(event);
                }
                Next::Core => {
                    let ms = self.ms();
                    measured(&mut self.coordinator_busy, || self.core.tick(ms));
                    self.drain();
                }
                Next::Member(pid) => self.wake(pid),
            }
            if self.ending && self.processes.is_empty() {
                return;
            }
        }
    }

    fn next(&mut self) -> Option<(Now, Next)> {
        let mut best: Option<(Now, Next)> = self.queue.peek().map(|Reverse(due)| (due.0, Next::Event));
        if let Some(due) = self.core.next_due_ms() {
            let at = Duration::from_millis((due - START_MS).max(0) as u64);
            if best.as_ref().is_none_or(|(first, _)| at < *first) {
                best = Some((at, Next::Core));
            }
        }
        for (pid, process) in &self.processes {
            let Some(at) = process.member.wake_at() else { continue };
            let at = at.max(process.stopped_until);
            let first = best.as_ref().is_none_or(|(first, _)| at < *first)
                // After a pause, whether the user's thread or the machine's task runs first is a matter of luck.
                || best.as_ref().is_some_and(|(first, _)| at == *first) && self.chance.odds(300);
            if first {
                best = Some((at, Next::Member(*pid)));
            }
        }
        best
    }

    fn wake(&mut self, pid: Pid) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let (at, times) = process.woken;
        process.woken = (now, if at == now { times + 1 } else { 0 });
        if process.woken.1 > WAKES {
            return self.checks.fail(Rule::Spins, format!("p{pid} wants to be woken at {now:?} again and again"));
        }
        process.inbox.push_back(Input::Tick);
        self.run_process(pid);
    }

    pub(crate) fn push(&mut self, at: Now, event: Event) {
        self.pushed += 1;
        self.queue.push(Reverse(Due(at.max(self.now), self.pushed, event)));
    }

    pub(crate) fn ms(&self) -> i64 {
        START_MS + self.now.as_millis() as i64
    }

    fn control(&mut self, command: Command) -> bool {
        if matches!(command, Command::MoveCoordinator { .. } | Command::StopNode { .. } | Command::StartNode { .. }) {
            self.loading_until = self.now + Duration::from_millis(self.plan.load_ms as u64 + 1);
        }
        let done = self.core.control(self.ms(), command).is_ok();
        self.drain();
        done
    }

    /// The process that an event is for, if it has one.
    fn process_of(&self, event: &Event) -> Option<Pid> {
        match event {
            Event::Answered(link, ..) | Event::Lost(link) => self.network.links.get(link).map(|link| link.pid),
            Event::Refused(pid, _)
            | Event::Timeout(pid, _)
            | Event::User(pid, ..)
            | Event::Metadata(pid, _)
            | Event::Assign(pid, ..)
            | Event::Resolve(pid, ..)
            | Event::Refresh(pid)
            | Event::Resubscribe(pid)
            | Event::CommitAll(pid) => Some(*pid),
            _ => None,
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(pid) = self.process_of(&event) {
            let Some(process) = self.processes.get(&pid) else { return };
            if process.stopped_until > self.now {
                let at = process.stopped_until;
                return self.push(at, event);
            }
        }
        match event {
            Event::Arrive(link, request) => self.arrive(link, request),
            Event::Fin(link) => self.fin(link),
            Event::Answered(link, correlation_id, frame) => self.answered(link, correlation_id, &frame),
            Event::Lost(link) => self.close_link(link, "the connection was reset"),
            Event::Refused(pid, id) => self.outcome(pid, id, Err(CallError::Lost("connection refused".into()))),
            Event::Timeout(pid, id) => {
                if let Some(link) = self.network.waits_on(pid, id) {
                    self.close_link(link, "no answer in time");
                }
            }
            Event::User(pid, holder, turn) => self.user(pid, holder, turn),
            Event::Metadata(pid, counts) => self.metadata(pid, counts),
            Event::Assign(pid, ticket, assignor, members, counts) => {
                self.assign(pid, ticket, &assignor, &members, counts)
            }
            Event::Resolve(pid, partition, span, earliest) => self.resolve(pid, &partition, span, earliest),
            Event::Refresh(pid) => self.refresh(pid, true),
            Event::Resubscribe(pid) => self.resubscribe(pid),
            Event::CommitAll(pid) => self.commit_all(pid),
            Event::Disrupt(index) => {
                let what = self.plan.disruptions[index].1.clone();
                say!(self, "--- {what:?}");
                self.disrupt(what);
            }
            Event::Start(slot) => self.start(slot, false),
            Event::StartNode(node) => self.start_node(node),
            Event::Produce => self.produce(),
            Event::Calm => self.calm_down(),
            Event::Look => self.look(),
        }
    }

    // ----- Calls --------------------------------------------------------------------------------------------------------

    pub(crate) fn send(&mut self, pid: Pid, id: CallId, target: Target, call: Call) {
        let now = self.now;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.calls.insert(id, (now, matches!(call, Call::Commit { .. })));
        }
        let node = match target {
            Target::Any { attempt } => attempt as i32 % self.plan.nodes + 1,
            Target::Coordinator { node_id } => node_id,
        };
        say!(self, "p{pid} -> n{node} #{id} {}", brief(&call));
        if let Call::Commit { generation, offsets, .. } = &call {
            self.checks.commits(pid, *generation, offsets);
            match self.bug {
                Some(Bug::SkipCommit) if self.chance.odds(300) => {
                    let codes = offsets.keys().map(|partition| (partition.clone(), ErrorCode::None)).collect();
                    return self.outcome_later(pid, id, Answer::Commit { codes });
                }
                _ => {}
            }
        }
        let extra = call.extra_timeout();
        self.push(now + self.plan.request_timeout + extra, Event::Timeout(pid, id));
        if self.stopped_nodes.contains(&node) {
            let at = now + self.latency();
            return self.push(at, Event::Refused(pid, id));
        }
        let versions = call.versions();
        let version = self.plan.version_cap.clamp(*versions.start(), *versions.end());
        let link = self.network.link(pid, node, call.lane(), now);
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
        self.push(at, Event::Arrive(link, request));
    }

    /// An answer that nobody gave.
    fn outcome_later(&mut self, pid: Pid, id: CallId, answer: Answer) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.calls.remove(&id);
            process.inbox.push_back(Input::Answer { id, outcome: Ok(answer) });
            self.checks.commit_over(pid);
        }
    }

    fn latency(&mut self) -> Duration {
        let slow = !self.calm && self.chance.odds(self.plan.slow_frames);
        let base = Duration::from_micros(self.chance.between(100, 3000) as u64);
        base + if slow { self.chance.ms(1, self.plan.slow_ms) } else { Duration::ZERO }
    }

    fn arrive(&mut self, link: Link, request: Request) {
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
        connection.busy = true;
        if !connection.client_open {
            self.checks.met.met(Situation::LateRequest);
        }
        measured(&mut self.coordinator_busy, || self.core.request(ms, broker, &frame));
    }

    /// Takes what the core has to say.
    fn drain(&mut self) {
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
        self.checks.served(&request.call, &answer, late);
        if let (Call::Join { instance_id: Some(id), .. }, Answer::Join { code: ErrorCode::None, .. }) =
            (&request.call, &answer)
        {
            self.checks.took(pid, id);
        }
        if matches!(answer, Answer::Heartbeat { code: ErrorCode::None }) && self.now <= self.loading_until {
            self.checks.met.met(Situation::BlindHeartbeat);
            self.checks.blind(pid);
        }
        self.meet(&request.call, &answer);
        let api = request.call.api();
        if let Some(index) = self.lose.iter().position(|lost| *lost == api) {
            self.lose.remove(index);
            match &answer {
                Answer::Join { code: ErrorCode::None, .. } => self.checks.met.met(Situation::LostJoinAnswer),
                Answer::Sync { code: ErrorCode::None, .. } => self.checks.met.met(Situation::LostSyncAnswer),
                Answer::Commit { .. } => self.checks.met.met(Situation::LostCommitAnswer),
                _ => {}
            }
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

    fn broker_closes(&mut self, link: Link) {
        let ms = self.ms();
        if let Some(broker) = self.network.close_broker(link) {
            self.core.disconnected(ms, broker);
        }
        let at = self.now + self.latency();
        self.push(at, Event::Lost(link));
    }

    fn fin(&mut self, link: Link) {
        let ms = self.ms();
        if let Some(broker) = self.network.close_broker(link) {
            self.core.disconnected(ms, broker);
        }
        self.network.sweep();
    }

    fn answered(&mut self, link: Link, correlation_id: i32, frame: &Bytes) {
        let Some(connection) = self.network.links.get_mut(&link).filter(|connection| connection.client_open) else {
            return;
        };
        let pid = connection.pid;
        let Some(request) = connection.waiting.pop_front() else { return };
        if request.correlation_id != correlation_id {
            return self.checks.fail(Rule::Outcomes, format!("p{pid}: answers are out of order"));
        }
        let Ok(answer) = request.call.decode(frame, request.version) else { return };
        let answer = self.mistake(&request.call, answer);
        self.outcome(pid, request.id, Ok(answer));
    }

    /// What planted bugs make of an answer.
    fn mistake(&mut self, call: &Call, answer: Answer) -> Answer {
        let fenced = |code: ErrorCode| matches!(code, ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId);
        match (self.bug, call, answer) {
            (Some(Bug::IgnoreFencedHeartbeat), _, Answer::Heartbeat { code }) if fenced(code) => {
                Answer::Heartbeat { code: ErrorCode::None }
            }
            (Some(Bug::IgnoreFencedCommit), _, Answer::Commit { mut codes }) => {
                codes.values_mut().filter(|code| fenced(**code)).for_each(|code| *code = ErrorCode::None);
                Answer::Commit { codes }
            }
            (
                Some(Bug::ResetOnError),
                Call::FetchOffsets { partitions, .. },
                Answer::FetchOffsets { code, offsets },
            ) if code != ErrorCode::None || offsets.values().any(Result::is_err) => {
                let offsets = partitions.iter().map(|partition| (partition.clone(), Ok(None))).collect();
                Answer::FetchOffsets { code: ErrorCode::None, offsets }
            }
            (_, _, answer) => answer,
        }
    }

    /// A call has its outcome.
    fn outcome(&mut self, pid: Pid, id: CallId, outcome: Result<Answer, CallError>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some((sent, commit)) = process.calls.remove(&id) else {
            return self.checks.fail(Rule::Outcomes, format!("p{pid}: #{id} has two outcomes"));
        };
        if commit {
            self.checks.commit_over(pid);
        }
        match &outcome {
            Ok(Answer::Heartbeat { code: ErrorCode::None | ErrorCode::RebalanceInProgress })
            | Ok(Answer::Join { code: ErrorCode::None, .. }) => self.checks.proved(pid, sent),
            _ => {}
        }
        process.inbox.push_back(Input::Answer { id, outcome });
        self.run_process(pid);
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
            let outcome = match (self.bug, request.call) {
                (Some(Bug::ResetOnError), Call::FetchOffsets { partitions, .. }) => {
                    let offsets = partitions.into_iter().map(|partition| (partition, Ok(None))).collect();
                    Ok(Answer::FetchOffsets { code: ErrorCode::None, offsets })
                }
                _ => Err(CallError::Lost(reason.into())),
            };
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

    fn meet(&mut self, call: &Call, answer: &Answer) {
        let code = match answer {
            Answer::FindCoordinator { code, .. }
            | Answer::Join { code, .. }
            | Answer::Sync { code, .. }
            | Answer::Heartbeat { code }
            | Answer::Leave { code }
            | Answer::FetchOffsets { code, .. } => *code,
            Answer::Commit { codes } => codes.values().next().copied().unwrap_or(ErrorCode::None),
        };
        let met = &mut self.checks.met;
        match (answer, code) {
            (_, ErrorCode::NotCoordinator) => met.met(Situation::NotCoordinator),
            (_, ErrorCode::CoordinatorLoadInProgress) => met.met(Situation::LoadInProgress),
            (Answer::Heartbeat { .. }, ErrorCode::IllegalGeneration) => met.met(Situation::IllegalGeneration),
            (Answer::Heartbeat { .. }, ErrorCode::UnknownMemberId) => met.met(Situation::UnknownMember),
            (Answer::Join { .. }, ErrorCode::UnknownMemberId) => met.met(Situation::UnknownMemberJoins),
            (Answer::Join { .. }, ErrorCode::MemberIdRequired) => met.met(Situation::MemberIdRequired),
            (Answer::Sync { .. }, ErrorCode::RebalanceInProgress) => met.met(Situation::SyncDuringRebalance),
            (Answer::Join { skip_assignment: true, .. }, ErrorCode::None) => met.met(Situation::AssignmentSkipped),
            (Answer::Join { generation, leader, member_id, .. }, ErrorCode::None) => {
                let Call::Join { instance_id, member_id: asked, .. } = call else { return };
                // A generation that others have already: a static member came back without a rebalance.
                let same = self.processes.values().any(|process| process.member.status().generation == *generation);
                if instance_id.is_some() && asked.is_empty() && same && leader != member_id {
                    met.met(Situation::StaticReturn);
                }
            }
            _ => {}
        }
    }

    // ----- What goes wrong ------------------------------------------------------------------------------------------------

    fn of_slot(&self, slot: usize) -> Option<Pid> {
        self.processes.iter().rev().find(|(_, process)| process.slot == slot).map(|(pid, _)| *pid)
    }

    fn disrupt(&mut self, what: Disruption) {
        match what {
            Disruption::Start(slot) => self.start(slot, false),
            Disruption::Kill(slot, back) => {
                let Some(pid) = self.of_slot(slot) else { return };
                if self.processes[&pid]
                    .holders
                    .iter()
                    .any(|holder| matches!(holder.doing, crate::process::Doing::Holding(_)))
                {
                    self.checks.met.met(Situation::KilledWithRecords);
                }
                self.checks.died(pid);
                self.vanish(pid);
                self.push(self.now + back, Event::Start(slot));
            }
            Disruption::Close(slot, back) => {
                let Some(pid) = self.of_slot(slot) else { return };
                self.close(pid);
                self.push(self.now + back, Event::Start(slot));
            }
            Disruption::TakeOver(slot) => {
                if self.plan.slots[slot].instance_id.is_some() && self.of_slot(slot).is_some() {
                    self.start(slot, true);
                }
            }
            Disruption::Pause(slot, time) => {
                let (now, session) = (self.now, self.plan.session);
                let Some(process) = self.of_slot(slot).and_then(|pid| self.processes.get_mut(&pid)) else { return };
                process.stopped_until = process.stopped_until.max(now + time);
                if time > session {
                    self.checks.met.met(Situation::LongPause);
                }
            }
            Disruption::Cut(slot) => {
                let Some(pid) = self.of_slot(slot) else { return };
                for link in self.network.of_process(pid) {
                    if self.chance.odds(700) {
                        self.push(self.now, Event::Lost(link));
                    }
                }
            }
            Disruption::BlackHole(slot, node, time) => {
                if let Some(pid) = self.of_slot(slot) {
                    self.network.black_holes.insert((pid, node), self.now + time);
                }
            }
            Disruption::Stall(slot, time) => {
                let Some(pid) = self.of_slot(slot) else { return };
                let links = self.network.of_process(pid);
                if !links.is_empty() {
                    let link = *self.chance.pick(&links);
                    let until = self.now + time;
                    self.network.links.get_mut(&link).unwrap().stalled_until = until;
                }
            }
            Disruption::LoseAnswer(api) => self.lose.push(api),
            Disruption::DelayAnswer(api, time) => self.delay.push((api, time)),
            Disruption::MoveCoordinator(node) => self.move_coordinator(node),
            Disruption::StopNode(node, time) => {
                if self.stopped_nodes.insert(node) {
                    self.control(Command::StopNode { node: NodeId(node) });
                    self.push(self.now + time, Event::StartNode(node));
                }
            }
            Disruption::Grow(index) => self.grow(index),
            Disruption::Subscribe(slot, topics) => self.subscribe(slot, topics),
            Disruption::Resubscribe(slot, time) => {
                let now = self.now;
                let Some(pid) = self.of_slot(slot) else { return };
                self.unsubscribe(pid);
                self.push(now + time, Event::Resubscribe(pid));
            }
            Disruption::Slow(slot, time) => {
                if let Some(process) = self.of_slot(slot).and_then(|pid| self.processes.get_mut(&pid)) {
                    process.slow = time;
                }
            }
            Disruption::Rejoin(slot) => {
                if let Some(pid) = self.of_slot(slot) {
                    self.nudge(pid);
                }
            }
        }
    }

    /// The user wants a rebalance.
    fn nudge(&mut self, pid: Pid) {
        let now = self.now;
        if let Some(process) = self.processes.get_mut(&pid).filter(|process| process.stopped_until <= now) {
            process.inbox.push_back(Input::Rejoin { at: now, reason: "the user wants it".into() });
            self.run_process(pid);
        }
    }

    fn move_coordinator(&mut self, node: i32) {
        let joins = self.network.links.values().any(|connection| {
            connection.busy
                && connection.node != node
                && connection.arrived.front().is_some_and(|request| matches!(request.call, Call::Join { .. }))
        });
        let group = Some(GROUP.to_owned());
        if self.control(Command::MoveCoordinator { group, transactional_id: None, node: NodeId(node) }) && joins {
            self.checks.met.met(Situation::CoordinatorMovedDuringJoin);
        }
    }

    fn start_node(&mut self, node: i32) {
        if self.stopped_nodes.remove(&node) {
            say!(self, "--- node {node} starts");
            self.control(Command::StartNode { node: NodeId(node) });
        }
    }

    fn grow(&mut self, index: usize) {
        let topic = self.plan.topics[index].0.clone();
        let count = self.counts[&topic];
        let more = (count + self.chance.between(1, 3)).min(PARTITIONS);
        if more > count && self.control(Command::AddPartitions { topic: topic.to_string(), partitions: more as i32 }) {
            self.checks.met.met(Situation::Growth);
            for index in count..more {
                self.checks.add_log(TopicPartition::new(topic.clone(), index as i32), 0);
            }
            self.counts.insert(topic, more);
        }
    }

    fn produce(&mut self) {
        let partitions: Vec<TopicPartition> = self.checks.logs.keys().cloned().collect();
        let partition = self.chance.pick(&partitions).clone();
        let records = self.chance.between(1, 10) as i64;
        self.checks.append(&partition, records);
        if !self.calm {
            let at = self.now + self.chance.ms(20, 400);
            self.push(at, Event::Produce);
        }
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            if self.processes[&pid].stopped_until <= self.now {
                self.run_process(pid);
            }
        }
    }

    // ----- The end --------------------------------------------------------------------------------------------------------

    fn calm_down(&mut self) {
        say!(self, "--- calm");
        self.calm = true;
        (self.lose, self.delay) = (Vec::new(), Vec::new());
        self.network.black_holes.clear();
        let now = self.now;
        self.network.links.values_mut().for_each(|connection| connection.stalled_until = Now::ZERO);
        for process in self.processes.values_mut() {
            process.slow = Duration::ZERO;
            process.habits.hurry();
        }
        for node in self.stopped_nodes.clone() {
            self.start_node(node);
        }
        for slot in 0..self.plan.slots.len() {
            self.push(now + crate::plan::CLOSE + Duration::from_secs(1), Event::Start(slot));
            self.push(now, Event::Start(slot));
        }
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            self.push(now, Event::CommitAll(pid));
        }
        self.push(now + crate::plan::CLOSE + Duration::from_secs(2), Event::Look);
    }

    fn look(&mut self) {
        if self.ending {
            return;
        }
        let subscribed = self.processes.values().flat_map(|process| process.subscription.iter().cloned()).collect();
        let missing = match self.processes.iter().find(|(_, process)| !process.is_settled()) {
            Some((pid, process)) => Some(format!("p{pid} is {:?}", process.member.status().state)),
            None => self.checks.missing(&subscribed),
        };
        match missing {
            None => {
                say!(self, "--- all is well");
                self.ending = true;
                for pid in self.processes.keys().copied().collect::<Vec<_>>() {
                    self.close(pid);
                }
            }
            Some(missing) if self.now > self.give_up_at => self.checks.fail(Rule::Converges, missing),
            Some(_) if self.now > self.nudge_at => {
                // A static leader that came back does not know what was kept back, or added, before: the next rebalance mends it.
                self.nudge_at = self.give_up_at;
                for pid in self.processes.keys().copied().collect::<Vec<_>>() {
                    self.nudge(pid);
                }
                self.push(self.now, Event::Look);
            }
            Some(_) => self.push(self.now + Duration::from_millis(500), Event::Look),
        }
    }
}

/// A call in a line of the trace.
fn brief(call: &Call) -> String {
    match call {
        Call::FindCoordinator { .. } => "FindCoordinator".into(),
        Call::Join { member_id, reason, .. } => format!("JoinGroup {} ({reason})", short(member_id)),
        Call::Sync { member_id, generation, assignments, .. } => {
            format!("SyncGroup {} generation {generation}, {} assignments", short(member_id), assignments.len())
        }
        Call::Heartbeat { member_id, generation, .. } => {
            format!("Heartbeat {} generation {generation}", short(member_id))
        }
        Call::Leave { member_id, .. } => format!("LeaveGroup {}", short(member_id)),
        Call::Commit { member_id, generation, offsets, .. } => {
            let offsets: Vec<_> = offsets.iter().map(|(partition, at)| format!("{partition}@{}", at.offset)).collect();
            format!("OffsetCommit {} generation {generation} {}", short(member_id), offsets.join(" "))
        }
        Call::FetchOffsets { partitions, .. } => {
            let partitions: Vec<_> = partitions.iter().map(ToString::to_string).collect();
            format!("OffsetFetch {}", partitions.join(" "))
        }
    }
}

fn brief_answer(answer: &Answer) -> String {
    match answer {
        Answer::FindCoordinator { code, node_id, .. } => format!("{code:?}, coordinator n{node_id}"),
        Answer::Join { code, generation, member_id, leader, members, .. } => {
            let leads = leader == member_id && !leader.is_empty();
            let role = if leads { format!(", leads {}", members.len()) } else { String::new() };
            format!("Join {code:?}, {} generation {generation}{role}", short(member_id))
        }
        Answer::Sync { code, assignment, .. } => match monedula_engine::assign::read_assignment(assignment) {
            Ok(assigned) => {
                let partitions: Vec<_> = assigned.partitions.iter().map(ToString::to_string).collect();
                format!("Sync {code:?} {}", partitions.join(" "))
            }
            Err(_) => format!("Sync {code:?}"),
        },
        Answer::Heartbeat { code } => format!("Heartbeat {code:?}"),
        Answer::Leave { code } => format!("Leave {code:?}"),
        Answer::Commit { codes } => {
            let codes: BTreeSet<_> = codes.values().collect();
            format!("Commit {codes:?}")
        }
        Answer::FetchOffsets { code, offsets } => {
            let found = offsets.iter().map(|(partition, found)| match found {
                Ok(Some(at)) => format!("{partition}@{}", at.offset),
                Ok(None) => format!("{partition}@none"),
                Err(code) => format!("{partition}@{code:?}"),
            });
            format!("Offsets {code:?} {}", found.collect::<Vec<_>>().join(" "))
        }
    }
}

fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}
