//! The simulation: time, and what happens next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monedula_broker::control::Command;
use monedula_broker::core::Core;
use monedula_broker::settings::Settings;
use monedula_engine::{Now, TopicPartition};

use crate::chance::Chance;
use crate::checks::{Checks, Pid, Rule};
use crate::deferred::leaves_for_later;
use crate::large::measured;
use crate::network::{Link, Network, Request};
use crate::plan::{Disruption, Plan};
use crate::planted::Bug;
use crate::process::Process;
use crate::trace::say;
use monedula_engine::group::{CallError, CallId, GroupProtocol, Input, Ticket, TopicInfo};

/// The broker's time at the start.
const START_MS: i64 = 1_700_000_000_000;

/// More steps than this are a loop.
pub(crate) const STEPS: usize = 3_000_000;

/// How often a machine may be woken at one and the same time.
const WAKES: u32 = 200;

/// What happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request arrives at its node.
    Arrive(Link, Box<Request>),
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
    Metadata(Pid, BTreeMap<Arc<str>, TopicInfo>),
    /// A leader has what it needs to assign.
    Assign(Pid, Ticket, String, Vec<(String, Option<String>, Vec<u8>)>, BTreeMap<Arc<str>, TopicInfo>),
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
    /// A topic that was deleted is made again.
    MakeTopic(usize),
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
    pub(crate) topics: BTreeMap<Arc<str>, TopicInfo>,
    pub(crate) calm: bool,
    /// Whether members offer different assignors.
    pub(crate) mixed: bool,
    pub(crate) ending: bool,
    pub(crate) network: Network,
    pub(crate) core: Core,
    queue: BinaryHeap<Reverse<Due>>,
    pushed: u64,
    pub(crate) last_pid: Pid,
    /// How often a process was started in each slot.
    pub(crate) starts: BTreeMap<usize, usize>,
    /// Slots in which nothing starts any more.
    pub(crate) retired: BTreeSet<usize>,
    pub(crate) stopped_nodes: BTreeSet<i32>,
    pub(crate) lose: Vec<&'static str>,
    pub(crate) delay: Vec<(&'static str, Duration)>,
    pub(crate) give_up_at: Now,
    /// When static members that did not converge are made to rebalance.
    pub(crate) nudge_at: Now,
    /// Until when a coordinator may load, and answers heartbeats blindly.
    pub(crate) loading_until: Now,
    pub(crate) steps: usize,
    /// Whether a planted bug has left out a partition.
    pub(crate) left_out: bool,
    /// How far a test has watched.
    pub(crate) watched: Now,
    /// What the machines, the coordinator and assigning took of the processor's time.
    pub(crate) members_busy: Duration,
    pub(crate) coordinator_busy: Duration,
    pub(crate) assigning: Duration,
}

impl World {
    pub(crate) fn new(plan: Plan, bug: Option<Bug>, tracing: bool) -> Self {
        let mut settings = Settings {
            nodes: plan.nodes as u16,
            seed: plan.seed,
            coordinator_load_ms: plan.load_ms,
            ..Settings::default()
        };
        let (delay, nodes) = (plan.initial_delay_ms.to_string(), plan.nodes.to_string());
        let (session, heartbeat) = (plan.session.as_millis().to_string(), plan.heartbeat.as_millis().to_string());
        let assignment_interval = plan.assignment_interval_ms.to_string();
        for (name, value) in [
            ("offsets.topic.num.partitions", "1"),
            ("default.replication.factor", nodes.as_str()),
            ("group.min.session.timeout.ms", "1000"),
            ("group.initial.rebalance.delay.ms", &delay),
            ("group.consumer.min.session.timeout.ms", "1000"),
            ("group.consumer.session.timeout.ms", &session),
            ("group.consumer.min.heartbeat.interval.ms", "500"),
            ("group.consumer.heartbeat.interval.ms", &heartbeat),
            ("group.consumer.assignment.interval.ms", &assignment_interval),
            ("group.consumer.assignors", plan.server_assignors),
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
            topics: BTreeMap::new(),
            calm: false,
            mixed: plan.slots.iter().any(|slot| slot.assignors != plan.slots[0].assignors),
            ending: false,
            network: Network::default(),
            core,
            queue: BinaryHeap::new(),
            pushed: 0,
            last_pid: 0,
            starts: BTreeMap::new(),
            retired: BTreeSet::new(),
            stopped_nodes: BTreeSet::new(),
            lose: Vec::new(),
            delay: Vec::new(),
            give_up_at: plan.calm
                + leaves_for_later(&plan)
                + 3 * (plan.max_poll + plan.session + plan.request_timeout)
                + Duration::from_secs(60),
            nudge_at: match plan.speaks(GroupProtocol::Classic) && plan.has_statics() {
                true => plan.calm + 2 * (plan.max_poll + plan.session + plan.request_timeout) + Duration::from_secs(40),
                false => Now::MAX,
            },
            loading_until: Now::ZERO,
            plan,
            steps: 0,
            left_out: false,
            watched: Now::ZERO,
            members_busy: Duration::ZERO,
            coordinator_busy: Duration::ZERO,
            assigning: Duration::ZERO,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for index in 0..self.plan.topics.len() {
            self.make_topic(index);
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
                // After a pause, either the user's thread or the machine's task may run first.
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

    pub(crate) fn control(&mut self, command: Command) -> bool {
        if matches!(command, Command::MoveCoordinator { .. } | Command::StopNode { .. } | Command::StartNode { .. }) {
            self.loading_until = self.now + Duration::from_millis(self.plan.load_ms as u64 + 1);
        }
        // Members that joined before now stand only in the log of the previous coordinator; the next one knows all later ones.
        self.read_back();
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
            Event::Arrive(link, request) => self.arrive(link, *request),
            Event::Fin(link) => self.fin(link),
            Event::Answered(link, correlation_id, frame) => self.answered(link, correlation_id, &frame),
            Event::Lost(link) => self.close_link(link, "the connection was reset"),
            Event::Refused(pid, id) => self.outcome(pid, id, Err(CallError::Unsent("connection refused".into()))),
            Event::Timeout(pid, id) => {
                if let Some(link) = self.network.waits_on(pid, |request| request.id == id) {
                    self.close_link(link, "no answer in time");
                }
            }
            Event::User(pid, holder, turn) => self.user(pid, holder, turn),
            Event::Metadata(pid, topics) => self.metadata(pid, topics),
            Event::Assign(pid, ticket, assignor, members, topics) => {
                self.assign(pid, ticket, &assignor, &members, topics)
            }
            Event::Resolve(pid, partition, reading_id, earliest) => self.resolve(pid, &partition, reading_id, earliest),
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
            Event::MakeTopic(index) => self.make_topic(index),
            Event::Produce => self.produce(),
            Event::Calm => self.calm_down(),
            Event::Look => self.look(),
        }
    }
}
