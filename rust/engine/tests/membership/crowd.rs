//! Several members against the embedded broker's coordinator, in virtual time: requests and answers that are slow or lost,
//! coordinators that move, members that pause, die, leave and change their minds, all out of a seed. After every step no
//! partition may be handed out by two, no commit may go back, and in the end all is shared out. `SEEDS=5000` runs more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_broker::core::{Action, Core};
use monedula_broker::settings::Settings;
use monedula_engine::backoff::Jitter;
use monedula_engine::group::{CallError, CallId, CallbackKind, CommitOffset, GroupEvent, Target, Ticket};
use monedula_engine::membership::{
    Answer, Call, Input, Member, MembershipConfig, Output, State, Subscription, TopicInfo, member_id,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::metadata::MetadataRequest;

use crate::world::{config, ms, names, secs};

const SEEDS: u64 = 120;
/// The broker's time at the start.
const START_MS: i64 = 1_700_000_000_000;
const NODES: u16 = 2;
const SESSION: Duration = Duration::from_secs(9);
const MAX_POLL: Duration = Duration::from_secs(20);
/// From here on nothing goes wrong any more.
const CALM: Duration = Duration::from_secs(150);
const END: Duration = Duration::from_secs(260);
const STEPS: u32 = 400_000;

type Pid = u64;

#[derive(Debug)]
enum Event {
    /// A request arrives; its answer gets back, or not.
    Arrive {
        pid: Pid,
        id: CallId,
        node: i32,
        call: Call,
        answered: bool,
    },
    Outcome {
        pid: Pid,
        id: CallId,
        outcome: Result<Answer, CallError>,
    },
    Metadata(Pid),
    /// The user's next call.
    User(Pid),
    Disrupt,
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

/// A partition that is owned: where the next record is, once that is known, and whether records are handed out.
#[derive(Debug, Default)]
struct Lane {
    position: Option<i64>,
    /// The callback that has to end before anything is handed out.
    awaits: Option<Ticket>,
    stopped: bool,
}

struct Process {
    member: Member,
    lanes: BTreeMap<TopicPartition, Lane>,
    lease: Option<Now>,
    owed: Vec<Input>,
    settles: Vec<(Ticket, BTreeSet<TopicPartition>)>,
    finished: BTreeMap<TopicPartition, i64>,
    polled: Now,
    /// Nothing of it runs before.
    paused_until: Now,
    closed: bool,
}

struct Crowd {
    core: Core,
    dice: Jitter,
    now: Now,
    queue: BinaryHeap<Reverse<Due>>,
    pushed: u64,
    processes: BTreeMap<Pid, Process>,
    last_pid: Pid,
    committed: BTreeMap<TopicPartition, i64>,
    /// When the last request of a process to a node arrives.
    arrivals: BTreeMap<(Pid, i32), Now>,
    tracing: bool,
    handed_out: u64,
    moves: u64,
    lost: u64,
}

impl Crowd {
    fn new(seed: u64) -> Self {
        let mut settings = Settings { nodes: NODES, seed, coordinator_load_ms: 300, ..Settings::default() };
        for (name, value) in [
            ("offsets.topic.num.partitions", "1"),
            ("default.replication.factor", "2"),
            ("group.consumer.min.session.timeout.ms", "1000"),
            ("group.consumer.session.timeout.ms", "9000"),
            ("group.consumer.min.heartbeat.interval.ms", "500"),
            ("group.consumer.heartbeat.interval.ms", "2000"),
        ] {
            settings.kafka.set(name, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let mut crowd = Self {
            core: Core::new(settings, START_MS).expect("it starts"),
            dice: Jitter::new(seed),
            now: Now::ZERO,
            queue: BinaryHeap::new(),
            pushed: 0,
            processes: BTreeMap::new(),
            last_pid: 0,
            committed: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            tracing: false,
            handed_out: 0,
            moves: 0,
            lost: 0,
        };
        for (topic, partitions) in [("t", 5), ("u", 3)] {
            crowd.control(Command::CreateTopic {
                topic: topic.into(),
                partitions: Some(partitions),
                replicas: None,
                config: BTreeMap::new(),
            });
        }
        for _ in 0..3 {
            crowd.start();
        }
        crowd.push(secs(5), Event::Disrupt);
        crowd
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next() % sides
    }

    fn at_broker(&self) -> i64 {
        START_MS + i64::try_from(self.now.as_millis()).expect("it fits")
    }

    fn push(&mut self, at: Now, event: Event) {
        self.pushed += 1;
        self.queue.push(Reverse(Due(at.max(self.now), self.pushed, event)));
    }

    fn control(&mut self, command: Command) {
        // One that cannot be done now, is not.
        let _ = self.core.control(self.at_broker(), command);
        let _ = self.core.drain().count();
    }

    fn move_coordinator(&mut self, node: i32) {
        let group = Some("g".into());
        self.control(Command::MoveCoordinator { group, transactional_id: None, node: NodeId(node) });
    }

    fn latency(&mut self) -> Duration {
        let slow = self.now < CALM && self.roll(30) == 0;
        if slow { ms(100 + self.roll(6000)) } else { ms(1 + self.roll(20)) }
    }

    fn start(&mut self) {
        self.last_pid += 1;
        let pid = self.last_pid;
        let setup = MembershipConfig {
            session_timeout: SESSION,
            max_poll_interval: MAX_POLL,
            auto_commit_interval: (!pid.is_multiple_of(4)).then_some(secs(3)),
            ..config()
        };
        let mut random = [0; 16];
        random[..8].copy_from_slice(&self.dice.next().to_le_bytes());
        random[8..].copy_from_slice(&self.dice.next().to_le_bytes());
        let process = Process {
            member: Member::new(setup, member_id(random), self.dice.next()),
            lanes: BTreeMap::new(),
            lease: None,
            owed: Vec::new(),
            settles: Vec::new(),
            finished: BTreeMap::new(),
            polled: self.now,
            paused_until: Now::ZERO,
            closed: false,
        };
        self.processes.insert(pid, process);
        self.subscribe(pid);
        self.push(self.now, Event::User(pid));
    }

    fn subscribe(&mut self, pid: Pid) {
        let all = Subscription::Topics(names(&["t", "u"]));
        let subscription = match self.roll(4) {
            _ if self.now >= CALM => all,
            0 => Subscription::Topics(names(&["t"])),
            1 => Subscription::Regex("[tu]".into()),
            _ => all,
        };
        self.put(pid, Input::Subscribe(subscription));
        let at = self.now + self.latency();
        self.push(at, Event::Metadata(pid));
    }

    fn topics(&mut self) -> BTreeMap<Arc<str>, TopicInfo> {
        let frame =
            encode_request(&MetadataRequest { topics: None, ..Default::default() }, 12, 1, None).expect("it encodes");
        let answer = self.ask(0, &frame).expect("metadata is always there");
        let response = decode_response::<MetadataRequest<'_>>(&answer, 12).expect("it decodes");
        let topics = response.topics.iter().filter_map(|topic| {
            Some((topic.name?.into(), TopicInfo { id: topic.topic_id, partitions: topic.partitions.len() }))
        });
        topics.collect()
    }

    /// What a node answers at once; `None` if it does not.
    fn ask(&mut self, node: i32, frame: &[u8]) -> Option<Bytes> {
        let ms = self.at_broker();
        let connection = self.core.connected(ms, NodeId(node), "127.0.0.1");
        self.core.request(ms, connection, &Bytes::copy_from_slice(&frame[4..]));
        let replies: Vec<_> = self.core.drain().collect();
        self.core.disconnected(ms, connection);
        replies.into_iter().filter(|reply| reply.connection == connection).find_map(|reply| match reply.action {
            Action::Send(pieces) => Some(Bytes::from(pieces.concat()).slice(4..)),
            _ => None,
        })
    }

    fn put(&mut self, pid: Pid, input: Input) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.member.handle(self.now, Input::Polled { at: process.polled });
        process.member.handle(self.now, input);
        let mut outputs = Vec::new();
        while let Some(output) = process.member.poll() {
            outputs.push(output);
        }
        for output in outputs {
            self.output(pid, output);
        }
    }

    fn output(&mut self, pid: Pid, output: Output) {
        self.trace(pid, &output);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        match output {
            Output::Call { id, target, call } => self.send(pid, id, target, call),
            Output::Resolve { .. } => {
                let at = self.now + self.latency();
                self.push(at, Event::Metadata(pid));
            }
            Output::Gained { partitions } => {
                self.moves += 1;
                process.lanes.extend(partitions.into_iter().map(|partition| (partition, Lane::default())));
            }
            Output::Start { partitions } => {
                for (partition, committed, _) in partitions {
                    let position = committed.map_or(0, |at| at.offset);
                    assert!(position <= self.committed.get(&partition).copied().unwrap_or(0));
                    process.lanes.get_mut(&partition).expect("it is owned").position = Some(position);
                }
            }
            Output::StartFailed { partition, code } => panic!("{partition}: {code}"),
            Output::Settle { ticket, partitions } => {
                for (partition, lane) in &mut process.lanes {
                    lane.stopped |= partitions.contains(partition);
                }
                process.settles.push((ticket, partitions));
            }
            Output::Snapshot { ticket, .. } => {
                let offsets = take(&mut process.finished, |_| true);
                self.put(pid, Input::Settled { ticket, offsets });
            }
            Output::Callback { ticket, kind, partitions } => {
                for partition in partitions.iter().filter(|_| kind == CallbackKind::Assigned) {
                    process.lanes.get_mut(partition).expect("it is owned").awaits = Some(ticket);
                }
                process.owed.push(Input::CalledBack { ticket });
            }
            Output::Dropped { partitions } => {
                process.lanes.retain(|partition, _| !partitions.contains(partition));
                process.finished.retain(|partition, _| !partitions.contains(partition));
            }
            Output::Committed { outcomes, .. } => {
                // What is not committed is to be brought again, as far as the user is by then.
                for (partition, _) in outcomes.into_iter().filter(|(_, (_, outcome))| outcome.is_err()) {
                    if let Some(at) = process.lanes.get(&partition).and_then(|lane| lane.position) {
                        process.finished.insert(partition, at);
                    }
                }
            }
            Output::Lease { until } => process.lease = until,
            Output::Raise { error, fatal } => assert!(!fatal, "p{pid}: {error}"),
            Output::FallBack { reason } => panic!("{reason}"),
            Output::Closed => process.closed = true,
            Output::Event(GroupEvent::Lost { .. }) => self.lost += 1,
            Output::StateChanged { .. } | Output::Event(_) => {}
        }
    }

    /// `SEED=7 ... --nocapture` prints all that happens in one.
    fn trace(&self, pid: Pid, what: &dyn std::fmt::Debug) {
        if self.tracing {
            println!("{:>9.3}  p{pid} {what:?}", self.now.as_secs_f64());
        }
    }

    fn send(&mut self, pid: Pid, id: CallId, target: Target, call: Call) {
        let node = match target {
            Target::Any { attempt } => (attempt % u32::from(NODES)) as i32,
            Target::Coordinator { node_id } => node_id,
        };
        // Requests of one process to one node keep their order.
        let last = self.arrivals.get(&(pid, node)).copied().unwrap_or_default();
        let at = last.max(self.now + self.latency());
        self.arrivals.insert((pid, node), at);
        match self.roll(25) {
            0 if self.now < CALM => {
                let outcome = Err(CallError::Lost("the request was lost".into()));
                self.push(at, Event::Outcome { pid, id, outcome });
            }
            dice => {
                let answered = dice != 1 || self.now >= CALM;
                self.push(at, Event::Arrive { pid, id, node, call, answered });
            }
        }
    }

    fn arrive(&mut self, pid: Pid, id: CallId, node: i32, call: &Call, answered: bool) {
        let version = *call.versions().end();
        let frame = call.encode(version, 7, None).expect("it encodes");
        let answer = self.ask(node, &frame).map(|frame| call.decode(&frame, version).expect("it decodes"));
        self.trace(pid, &(id, node, call, &answer, answered));
        if let (Call::Commit { offsets, .. }, Some(Answer::Commit { codes })) = (call, &answer) {
            for (partition, at) in offsets.iter().filter(|(partition, _)| codes[*partition] == ErrorCode::None) {
                let known = self.committed.insert(partition.clone(), at.offset).unwrap_or(0);
                assert!(known <= at.offset, "p{pid} puts {partition} back from {known} to {}", at.offset);
            }
        }
        let outcome = match answer.filter(|_| answered) {
            Some(answer) => Ok(answer),
            None => Err(CallError::Lost("the answer was lost".into())),
        };
        let at = self.now + self.latency();
        self.push(at, Event::Outcome { pid, id, outcome });
    }

    /// The user finishes what it was handed, runs what waits for it, and is handed more.
    fn user(&mut self, pid: Pid) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.polled = self.now;
        let mut inputs: Vec<Input> = Vec::new();
        for (ticket, partitions) in std::mem::take(&mut process.settles) {
            let offsets = take(&mut process.finished, |partition| partitions.contains(partition));
            inputs.push(Input::Settled { ticket, offsets });
        }
        inputs.append(&mut process.owed);
        for input in inputs {
            if let (Input::CalledBack { ticket }, Some(process)) = (&input, self.processes.get_mut(&pid)) {
                process
                    .lanes
                    .values_mut()
                    .filter(|lane| lane.awaits == Some(*ticket))
                    .for_each(|lane| lane.awaits = None);
            }
            self.put(pid, input);
        }
        self.put(pid, Input::Tick);
        self.hand_out(pid);
        let busy = self.now < CALM && self.roll(60) == 0;
        let next = if busy { secs(self.roll(30)) } else { ms(50 + self.roll(400)) };
        self.push(self.now + next, Event::User(pid));
    }

    fn hand_out(&mut self, pid: Pid) {
        let open = self.open(pid);
        for (&other, _) in self.processes.iter().filter(|(other, _)| **other != pid) {
            let both: Vec<_> = self.open(other).into_iter().filter(|partition| open.contains(partition)).collect();
            assert!(both.is_empty(), "p{pid} and p{other} both hand out {both:?} at {:?}", self.now);
        }
        let more = 1 + self.roll(5) as i64;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for partition in open {
            let Some(at) = process.lanes.get_mut(&partition).and_then(|lane| lane.position.as_mut()) else { continue };
            *at += more;
            process.finished.insert(partition, *at);
            self.handed_out += 1;
        }
    }

    /// What a process may hand out now.
    fn open(&self, pid: Pid) -> BTreeSet<TopicPartition> {
        let Some(process) =
            self.processes.get(&pid).filter(|process| process.lease.is_none_or(|until| self.now < until))
        else {
            return BTreeSet::new();
        };
        let open = |lane: &Lane| lane.position.is_some() && lane.awaits.is_none() && !lane.stopped;
        process.lanes.iter().filter(|(_, lane)| open(lane)).map(|(partition, _)| partition.clone()).collect()
    }

    fn disrupt(&mut self) {
        if self.now >= CALM {
            for pid in self.processes.keys().copied().collect::<Vec<_>>() {
                self.subscribe(pid);
            }
            return;
        }
        let some = self.roll(self.processes.len() as u64) as usize;
        let pid = self.processes.keys().nth(some).copied().unwrap_or_default();
        match self.roll(8) {
            0 if self.processes.len() < 5 => self.start(),
            1 if self.processes.len() > 1 => {
                self.processes.remove(&pid);
            }
            2 if self.processes.len() > 1 => {
                let deadline = self.now + secs(5);
                self.put(pid, Input::Close { deadline, leave: true });
            }
            3 => {
                let until = self.now + secs(self.roll(25));
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.paused_until = until;
                }
            }
            4 => self.subscribe(pid),
            5 => {
                self.put(pid, Input::Unsubscribe);
                self.subscribe(pid);
            }
            _ => {
                let node = self.roll(u64::from(NODES)) as i32;
                self.move_coordinator(node);
            }
        }
        let next = self.now + secs(1 + self.roll(12));
        self.push(next.min(CALM.max(self.now)), Event::Disrupt);
    }

    fn run(mut self) -> Self {
        for _ in 0..STEPS {
            let Some(at) = self.next().filter(|at| *at < END) else { break };
            self.now = self.now.max(at);
            self.step();
            self.processes.retain(|_, process| !process.closed);
            if self.processes.is_empty() {
                self.start();
            }
        }
        assert!(self.next().is_some_and(|at| at >= END), "it has come to its end");
        self.judge();
        self
    }

    /// When something is due next, for a paused process not before it goes on.
    fn next(&self) -> Option<Now> {
        let event = self.queue.peek().map(|Reverse(due)| due.0);
        let core = self.core.next_due_ms().map(|due| Duration::from_millis((due - START_MS).max(0) as u64));
        let members = self.processes.values().filter_map(|it| Some(it.member.wake_at()?.max(it.paused_until)));
        event.into_iter().chain(core).chain(members).min()
    }

    fn step(&mut self) {
        if self.core.next_due_ms().is_some_and(|due| due <= self.at_broker()) {
            self.core.tick(self.at_broker());
            let _ = self.core.drain().count();
        }
        let woken: Vec<Pid> = self
            .processes
            .iter()
            .filter(|(_, it)| it.member.wake_at().is_some_and(|at| at.max(it.paused_until) <= self.now))
            .map(|(pid, _)| *pid)
            .collect();
        for pid in woken {
            self.put(pid, Input::Tick);
        }
        if self.queue.peek().is_none_or(|Reverse(due)| due.0 > self.now) {
            return;
        }
        let Some(Reverse(Due(_, _, event))) = self.queue.pop() else { return };
        let of = match &event {
            Event::Outcome { pid, .. } | Event::Metadata(pid) | Event::User(pid) => Some(*pid),
            _ => None,
        };
        let paused = of.and_then(|pid| self.processes.get(&pid)).map(|it| it.paused_until);
        if let Some(until) = paused.filter(|until| *until > self.now) {
            return self.push(until, event);
        }
        match event {
            Event::Arrive { pid, id, node, call, answered } => self.arrive(pid, id, node, &call, answered),
            Event::Outcome { pid, id, outcome } => self.put(pid, Input::Answer { id, outcome }),
            Event::Metadata(pid) => {
                let topics = self.topics();
                self.put(pid, Input::Topics { topics });
            }
            Event::User(pid) => self.user(pid),
            Event::Disrupt => self.disrupt(),
        }
    }

    /// All is shared out, among all, and nothing twice.
    fn judge(&self) {
        let mut owned: Vec<TopicPartition> = Vec::new();
        for (pid, process) in &self.processes {
            let status = process.member.status();
            assert_eq!(status.state, State::Stable, "p{pid}: {status:?}");
            assert_eq!(self.open(*pid), status.owned, "p{pid} hands out what it owns");
            owned.extend(status.owned);
        }
        owned.sort();
        let all = [("t", 5), ("u", 3)]
            .iter()
            .flat_map(|&(topic, count)| (0..count).map(move |it| TopicPartition::new(topic, it)));
        assert_eq!(owned, all.collect::<Vec<_>>());
    }
}

fn take(
    finished: &mut BTreeMap<TopicPartition, i64>,
    of: impl Fn(&TopicPartition) -> bool,
) -> BTreeMap<TopicPartition, CommitOffset> {
    let taken = finished.extract_if(.., |partition, _| of(partition));
    let at = |offset| CommitOffset { offset, leader_epoch: -1, metadata: String::new() };
    taken.map(|(partition, offset)| (partition, at(offset))).collect()
}

#[test]
fn no_partition_has_two_owners_no_commit_goes_back_and_all_is_shared_out_in_the_end() {
    let (mut handed_out, mut moves, mut lost) = (0, 0, 0);
    let setting = |name| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let seeds = setting("SEEDS").unwrap_or(SEEDS);
    if let Some(seed) = setting("SEED") {
        Crowd { tracing: true, ..Crowd::new(seed) }.run();
        return;
    }
    for seed in 0..seeds {
        let crowd = std::panic::catch_unwind(|| Crowd::new(seed).run());
        let Ok(crowd) = crowd else { panic!("seed {seed}") };
        handed_out += crowd.handed_out;
        moves += crowd.moves;
        lost += crowd.lost;
    }
    println!("{handed_out} batches, {moves} times partitions were gained, {lost} times lost");
    assert!(handed_out > 100 * seeds && moves > 5 * seeds && lost > seeds / 2);
}
