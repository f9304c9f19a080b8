//! The simulation: time, and what happens next. The seed decides everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use monedula_broker::control::Command;
use monedula_broker::core::{Core, Reply};
use monedula_broker::settings::Settings;
use monedula_engine::cluster::Cluster;
use monedula_engine::{Now, TopicPartition};

use crate::calls::{Body, Network, Request};
use crate::chance::Chance;
use crate::leaders::Leaders;
use crate::network::{Link, Pid};
use crate::plan::{Habits, Plan, TOPICS};
use crate::process::Process;
use crate::rules::{Bug, Figures, Rule, Violation};

/// The broker's time at the start.
pub(crate) const START_MS: i64 = 1_700_000_000_000;
/// More steps than this are a loop.
const STEPS: usize = 400_000;
/// How often a process may wake itself at one and the same time.
const WAKES: u32 = 100;
/// How long all may take to come to an end.
const END: Duration = Duration::from_secs(300);
pub(crate) const CLOSE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) enum Event {
    /// A request arrives at its node.
    Arrive(Link, Box<Request>),
    /// A node learns that a connection was closed.
    Fin(Link),
    /// An answer arrives.
    Answered(Link, u64, Bytes),
    /// A process learns that a connection is gone.
    Lost(Link),
    /// Nobody listens at a node.
    Refused(Pid, i32, Box<Body>),
    /// A request waited long enough.
    Timeout(Link, u64),
    /// A thread of a user's is done with what it did in that turn.
    User(Pid, usize, u64),
    Metadata(Pid, Arc<Cluster>),
    /// The next look at metadata.
    Refresh(Pid),
    Resubscribe(Pid),
    Trouble,
    Start(usize),
    StartNode(i32),
    Produce,
    /// From here on all is well.
    Calm,
    /// Whether all has come to its end.
    Look,
}

/// How far the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Trouble,
    /// All members close, for another one to read what they left.
    Leaving,
    Draining,
    Closing,
    Done,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    tracing: bool,
    pub(crate) now: Now,
    pub(crate) chance: Chance,
    pub(crate) core: Core,
    /// Replies of the core that came while something else was asked.
    pub(crate) postponed: Vec<Reply>,
    pub(crate) leaders: Leaders,
    pub(crate) network: Network,
    pub(crate) processes: BTreeMap<Pid, Process>,
    /// The cluster as it is.
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) stopped_nodes: BTreeSet<i32>,
    pub(crate) lose: Vec<&'static str>,
    pub(crate) calm: bool,
    pub(crate) phase: Phase,
    pub(crate) last_request: u64,
    pub(crate) last_pid: Pid,
    pub(crate) violation: Option<Violation>,
    pub(crate) figures: Figures,
    events: BTreeMap<(Now, u64), Event>,
    last_event: u64,
    pub(crate) steps: usize,
}

impl World {
    pub(crate) fn new(plan: Plan, bug: Option<Bug>, tracing: bool) -> Self {
        let mut settings = Settings {
            nodes: plan.nodes as u16,
            seed: plan.seed,
            coordinator_load_ms: plan.load_ms,
            ..Settings::default()
        };
        let ms = |time: Duration| time.as_millis().to_string();
        for (name, value) in [
            ("offsets.topic.num.partitions", "1".to_owned()),
            ("share.coordinator.state.topic.num.partitions", "1".to_owned()),
            ("default.replication.factor", plan.nodes.to_string()),
            ("group.share.min.session.timeout.ms", "1000".to_owned()),
            ("group.share.session.timeout.ms", ms(plan.session)),
            ("group.share.min.heartbeat.interval.ms", "100".to_owned()),
            ("group.share.heartbeat.interval.ms", ms(plan.heartbeat)),
            ("group.share.assignment.interval.ms", ms(plan.assignment_interval)),
            ("group.share.min.record.lock.duration.ms", "1000".to_owned()),
            ("group.share.record.lock.duration.ms", ms(plan.lock)),
            ("group.share.delivery.count.limit", plan.delivery_limit.to_string()),
            ("group.share.partition.max.record.locks", plan.record_locks.to_string()),
        ] {
            settings.kafka.set(name, &value).unwrap();
        }
        let leaders = Leaders::new(plan.delivery_limit, plan.lock.as_millis() as i64);
        let mut world = Self {
            bug,
            tracing,
            now: Now::ZERO,
            chance: Chance::new(plan.seed ^ 0x5eed),
            core: Core::new(settings, START_MS).unwrap(),
            postponed: Vec::new(),
            leaders,
            network: Network::default(),
            processes: BTreeMap::new(),
            cluster: Arc::default(),
            stopped_nodes: BTreeSet::new(),
            lose: Vec::new(),
            calm: false,
            phase: Phase::Trouble,
            last_request: 0,
            last_pid: 0,
            violation: None,
            figures: Figures::default(),
            events: BTreeMap::new(),
            last_event: 0,
            steps: 0,
            plan,
        };
        world.make_topics();
        for slot in 0..world.plan.users.len() {
            let at = world.chance.ms(0, 3000);
            world.push(at, Event::Start(slot));
        }
        world.push(Duration::from_millis(1), Event::Produce);
        world.push(Duration::from_millis(50), Event::Trouble);
        world.push(world.plan.calm, Event::Calm);
        world
    }

    pub(crate) fn push(&mut self, at: Now, event: Event) {
        self.last_event += 1;
        self.events.insert((at.max(self.now), self.last_event), event);
    }

    pub(crate) fn ms(&self) -> i64 {
        self.ms_of(self.now)
    }

    /// The broker's time, rounded down as its own clock is.
    pub(crate) fn ms_of(&self, at: Now) -> i64 {
        START_MS + at.as_millis() as i64
    }

    pub(crate) fn trace(&self, text: impl FnOnce() -> String) {
        if self.tracing {
            println!("{:>9.3}  {}", self.now.as_secs_f64(), text());
        }
    }

    /// Runs to the end, or to the first broken rule.
    pub(crate) fn run(&mut self) {
        while self.violation.is_none() && self.phase != Phase::Done {
            self.steps += 1;
            if self.steps > STEPS || self.now > self.plan.calm + END {
                let left = self.leaders.partitions.keys().map(|it| (it.to_string(), self.leaders.lag(it)));
                let left: Vec<_> = left.filter(|(_, lag)| *lag > 0).collect();
                let rule = if self.steps > STEPS { Rule::Spins } else { Rule::Ends };
                return self.fail(rule, format!("{:?}, {left:?} are left", self.phase));
            }
            let event = self.events.first_key_value().map(|((at, _), _)| *at).unwrap_or(Now::MAX);
            let core =
                self.core.next_due_ms().map_or(Now::MAX, |due| Duration::from_millis((due - START_MS).max(0) as u64));
            let wakes = self.processes.iter().filter_map(|(pid, process)| Some((process.wake_at(self.now)?, *pid)));
            let (wake, pid) = wakes.min().unwrap_or((Now::MAX, 0));
            self.now = self.now.max(event.min(core).min(wake));
            if core <= self.now {
                self.tick();
            } else if wake <= event {
                self.wake(pid);
            } else if let Some((_, event)) = self.events.pop_first() {
                self.expire();
                self.happen(event);
                self.drain();
            }
        }
    }

    fn wake(&mut self, pid: Pid) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let (at, times) = process.woken;
        process.woken = (now, if at == now { times + 1 } else { 0 });
        if process.woken.1 > WAKES {
            return self.fail(Rule::Spins, format!("p{pid} wants to be woken again and again"));
        }
        self.run_process(pid);
    }

    /// The process that an event is for, if it has one.
    fn process_of(&self, event: &Event) -> Option<Pid> {
        match event {
            Event::Answered(link, ..) | Event::Lost(link) | Event::Timeout(link, _) => {
                self.network.links.get(link).map(|link| link.pid)
            }
            Event::Refused(pid, ..)
            | Event::User(pid, ..)
            | Event::Metadata(pid, _)
            | Event::Refresh(pid)
            | Event::Resubscribe(pid) => Some(*pid),
            _ => None,
        }
    }

    fn happen(&mut self, event: Event) {
        let process = self.process_of(&event).and_then(|pid| self.processes.get(&pid));
        if let Some(until) = process.map(|process| process.stopped_until).filter(|until| *until > self.now) {
            return self.push(until, event);
        }
        match event {
            Event::Arrive(link, request) => self.arrive(link, *request),
            Event::Fin(link) => self.fin(link),
            Event::Answered(link, id, frame) => self.answered(link, id, &frame),
            Event::Lost(link) => self.close_link(link, "the connection is gone"),
            Event::Refused(pid, node, body) => {
                self.request_lost(pid, node, *body, "nobody listens");
                self.run_process(pid);
            }
            Event::Timeout(link, id) => {
                let waiting = self.network.links.get(&link).map(|link| &link.waiting);
                if waiting.is_some_and(|waiting| waiting.iter().any(|request| request.id == id)) {
                    self.close_link(link, "no answer in time");
                }
            }
            Event::User(pid, index, turn) => self.user(pid, index, turn),
            Event::Metadata(pid, cluster) => self.metadata(pid, cluster),
            Event::Refresh(pid) => {
                if self.processes.contains_key(&pid) {
                    self.want_metadata(pid);
                    let at = self.now + self.chance.ms(2000, 6000);
                    self.push(at, Event::Refresh(pid));
                }
            }
            Event::Resubscribe(pid) => self.subscribe(pid),
            Event::Trouble => self.trouble(),
            Event::Start(slot) => self.start(slot),
            Event::StartNode(node) => self.start_node(node),
            Event::Produce => self.produce(),
            Event::Calm => self.calm_down(),
            Event::Look => self.look(),
        }
    }

    /// Carries out a command, and tells the model which leaders have changed.
    pub(crate) fn control(&mut self, command: Command) -> bool {
        // What is due by now, and what is answered already, comes before.
        self.tick();
        let done = self.core.control(self.ms(), command).is_ok();
        let mut cluster = (*self.cluster).clone();
        self.ask_metadata(&mut cluster);
        for topic in TOPICS {
            for (index, leader) in cluster.topics.get(topic).map(|topic| topic.partitions.clone()).unwrap_or_default() {
                let partition = TopicPartition::new(topic, index);
                let has_moved = self.leaders.lead(&partition, leader.leader, leader.leader_epoch);
                self.figures.met("leaders moved", usize::from(has_moved));
            }
        }
        self.cluster = Arc::new(cluster);
        self.drain();
        done
    }

    /// Whether anybody reads a partition.
    pub(crate) fn is_read(&self, partition: &TopicPartition) -> bool {
        *partition.topic == *TOPICS[0] || self.processes.values().any(|process| process.habits.reads_both)
    }

    /// The habits of the users in a slot; after the last slot, those of one who reads all that is left.
    pub(crate) fn habits(&self, slot: usize) -> Habits {
        let first = || Habits { reads_both: true, ..self.plan.users[0].clone() };
        self.plan.users.get(slot).cloned().unwrap_or_else(first)
    }
}
