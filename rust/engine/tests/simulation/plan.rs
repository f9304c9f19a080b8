//! What a seed stands for: the cluster, the members and their users, and what goes wrong when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::Now;
use monedula_engine::assign::{Pace, builtin_with};
use monedula_engine::backoff::Backoff;
use monedula_engine::group::classic::{ClassicConfig, QUICK_HEARTBEATS};
use monedula_engine::group::consumer::ConsumerProtocolConfig;

use crate::chance::Chance;
use crate::machine::Naming;
use crate::upgrading;
use monedula_engine::group::{GroupProtocol, MemberConfig};

pub(crate) const GROUP: &str = "etl";

/// How long a close may take at most.
pub(crate) const CLOSE: Duration = Duration::from_secs(15);

const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(1), factor: 2 };

/// Who speaks which protocol.
#[derive(Clone, Copy, Debug)]
enum Mix {
    Only(GroupProtocol),
    /// From the one to the other, process by process as they are started anew.
    Towards(GroupProtocol),
    /// Each as it likes.
    Any,
}

impl Mix {
    fn new(chance: &mut Chance) -> Self {
        match chance.below(20) {
            0..7 => Self::Only(GroupProtocol::Classic),
            7..14 => Self::Only(GroupProtocol::Consumer),
            14..16 => Self::Towards(GroupProtocol::Consumer),
            16..18 => Self::Towards(GroupProtocol::Classic),
            _ => Self::Any,
        }
    }

    fn protocols(self, chance: &mut Chance) -> Vec<GroupProtocol> {
        let both = [GroupProtocol::Classic, GroupProtocol::Consumer];
        match self {
            Self::Only(protocol) => vec![protocol],
            Self::Towards(GroupProtocol::Consumer) => both.to_vec(),
            Self::Towards(GroupProtocol::Classic) => vec![GroupProtocol::Consumer, GroupProtocol::Classic],
            Self::Any => (0..4).map(|_| *chance.pick(&both)).collect(),
        }
    }

    /// Patterns, only where each is told of the topics that they match.
    fn naming(self, chance: &mut Chance) -> Naming {
        match self {
            Self::Only(GroupProtocol::Classic) => Naming::Names,
            _ => *chance.pick(&[Naming::Names, Naming::Names, Naming::Matched, Naming::Regex]),
        }
    }
}

/// How a member's user behaves.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) on_assigned: bool,
    pub(crate) on_revoked: bool,
    pub(crate) on_lost: bool,
    /// Threads that take batches.
    pub(crate) holders: usize,
    pub(crate) batch_max: usize,
    /// Longest time a batch is held, in milliseconds.
    pub(crate) hold_ms: usize,
    /// Longest time a callback takes, in milliseconds.
    pub(crate) callback_ms: usize,
    /// Of a thousand batches, how many are committed explicitly, and of these how many are waited for.
    pub(crate) commits: usize,
    pub(crate) waits: usize,
    /// Whether it commits when partitions are revoked.
    pub(crate) commits_in_callback: bool,
    /// Of a thousand batches, how many are followed by a seek.
    pub(crate) seeks: usize,
}

impl Habits {
    /// What is left is to be done within the time that a run has for it.
    pub(crate) fn hurry(&mut self) {
        (self.batch_max, self.hold_ms, self.callback_ms, self.seeks) = (1000, 5, 5, 0);
    }
}

/// A place for a process: when one dies, another takes it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) assignors: Vec<&'static str>,
    pub(crate) instance_id: Option<String>,
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) naming: Naming,
    pub(crate) habits: Habits,
    /// What its first process speaks, its second, and so on; the last stands for all that follow.
    pub(crate) protocols: Vec<GroupProtocol>,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    Killed,
    Closed,
}

/// Something that happens to the cluster or to a process.
#[derive(Clone, Debug)]
pub(crate) enum Disruption {
    /// A process starts in a slot, if none runs there.
    Start(usize),
    /// kill -9; another starts after the time.
    Kill(usize, Duration),
    /// A clean close; another starts after the time.
    Close(usize, Duration),
    /// A process ends, by kill -9 or by a clean close, and nobody takes its place any more: the deployment was made smaller.
    Retire(usize, Leaves),
    /// A second process starts under the same static id.
    TakeOver(usize),
    /// SIGSTOP for so long.
    Pause(usize, Duration),
    /// A process's connections are reset.
    Cut(usize),
    /// Nothing passes between a process and a node for so long.
    BlackHole(usize, i32, Duration),
    /// One connection of a process gets nothing across for so long.
    Stall(usize, Duration),
    /// The next answer to this call is lost with its connection.
    LoseAnswer(&'static str),
    /// The next answer to this call takes so long.
    DelayAnswer(&'static str, Duration),
    MoveCoordinator(i32),
    StopNode(i32, Duration),
    Grow(usize),
    /// A topic is deleted, and made anew after the time.
    Recreate(usize, Duration),
    Subscribe(usize, BTreeSet<Arc<str>>),
    Resubscribe(usize, Duration),
    /// The next batch, or callback, takes so long.
    Slow(usize, Duration),
    Rejoin(usize),
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: i32,
    pub(crate) load_ms: i64,
    pub(crate) initial_delay_ms: i32,
    /// Names, partitions, where their logs begin.
    pub(crate) topics: Vec<(Arc<str>, usize, i64)>,
    pub(crate) session: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) max_poll: Duration,
    pub(crate) auto_commit: Option<Duration>,
    pub(crate) request_timeout: Duration,
    pub(crate) latest: bool,
    pub(crate) slots: Vec<Slot>,
    /// Of assignors that leave things for later.
    pub(crate) pace: Pace,
    /// How long a target stands at least.
    pub(crate) assignment_interval_ms: usize,
    /// Assignors that the coordinator has.
    pub(crate) server_assignors: &'static str,
    /// Of a thousand frames, how many are slow, and how slow in milliseconds.
    pub(crate) slow_frames: usize,
    pub(crate) slow_ms: usize,
    /// The highest version of any API that is spoken.
    pub(crate) version_cap: i16,
    pub(crate) disruptions: Vec<(Now, Disruption)>,
    pub(crate) produces: bool,
    /// From here on all is well.
    pub(crate) calm: Now,
}

/// Assignors that leave things for later.
pub(crate) const DEFERRING: [&str; 2] = ["deferred", "incremental"];

const CLASSIC_CALLS: &[&str] =
    &["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "LeaveGroup", "FindCoordinator"];

const CONSUMER_CALLS: &[&str] = &[
    "ConsumerGroupHeartbeat",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupHeartbeat",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
];

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let chance = &mut chance;
        let topics: Vec<(Arc<str>, usize, i64)> = (0..chance.between(1, 3))
            .map(|index| {
                let start = if chance.odds(300) { chance.between(1, 9) as i64 } else { 0 };
                (format!("t{index}").into(), chance.between(1, 8), start)
            })
            .collect();
        let names: Vec<Arc<str>> = topics.iter().map(|(name, ..)| name.clone()).collect();
        let auto_commit = chance.odds(700).then(|| chance.ms(500, 5000));
        let session = chance.ms(6000, 10_000);
        let strategies = strategies(chance);
        let statics = *chance.pick(&[0, 0, 300, 1000]);
        let mix = Mix::new(chance);
        let slots: Vec<Slot> = (0..chance.between(2, 8))
            .map(|index| Slot {
                assignors: chance.pick(&strategies).clone(),
                instance_id: chance.odds(statics).then(|| format!("static-{index}")),
                topics: some_topics(chance, &names),
                naming: mix.naming(chance),
                habits: habits(chance, auto_commit.is_some()),
                protocols: mix.protocols(chance),
            })
            .collect();
        let nodes = chance.between(1, 3) as i32;
        let calm = Now::from_secs(chance.between(30, 90) as u64);
        let mut plan = Self {
            seed,
            nodes,
            load_ms: if chance.odds(400) { chance.between(50, 3000) as i64 } else { 0 },
            initial_delay_ms: if chance.odds(500) { chance.between(100, 3000) as i32 } else { 0 },
            topics,
            session,
            heartbeat: session / chance.between(3, 5) as u32,
            max_poll: chance.ms(4000, 30_000),
            auto_commit,
            request_timeout: chance.ms(2000, 12_000),
            latest: chance.odds(150),
            slots,
            pace: pace(&mut Chance::new(seed ^ 0xdefe)),
            assignment_interval_ms: *chance.pick(&[0, 0, 0, 1000]),
            server_assignors: *chance.pick(&["uniform,range", "range,uniform"]),
            slow_frames: *chance.pick(&[0, 2, 10, 50]),
            slow_ms: *chance.pick(&[50, 500, 3000, 9000]),
            version_cap: *chance.pick(&[i16::MAX, i16::MAX, 9, 8, 7, 6, 5]),
            disruptions: Vec::new(),
            produces: true,
            calm,
        };
        if plan.speaks(GroupProtocol::Consumer) {
            // A group whose assignments carry user data cannot be upgraded.
            let defers = |slot: &&mut Slot| slot.assignors.iter().any(|name| DEFERRING.contains(name));
            for slot in plan.slots.iter_mut().filter(defers) {
                slot.assignors = vec!["cooperative-sticky"];
            }
        }
        plan.disruptions = disruptions(chance, &plan, &names);
        upgrading::of_seed(&mut plan);
        plan
    }

    /// A cooperative group in which nothing goes wrong, without records and without disruptions.
    pub(crate) fn quiet(members: usize, topics: usize, partitions: usize) -> Self {
        let topics: Vec<_> = (0..topics).map(|index| (format!("t{index}").into(), partitions, 0)).collect();
        let mut plan = Self::new(0);
        let mut slot = plan.slots[0].clone();
        slot.assignors = vec!["cooperative-sticky"];
        slot.instance_id = None;
        slot.naming = Naming::Names;
        slot.protocols = vec![GroupProtocol::Classic];
        slot.topics = topics.iter().map(|(name, ..)| Arc::clone(name)).collect();
        slot.habits.hurry();
        slot.habits.holders = 1;
        plan.slots = vec![slot; members];
        plan.topics = topics;
        (plan.nodes, plan.load_ms, plan.slow_frames, plan.version_cap) = (1, 0, 0, i16::MAX);
        (plan.session, plan.heartbeat) = (Duration::from_secs(45), Duration::from_secs(3));
        (plan.max_poll, plan.request_timeout) = (Duration::from_secs(300), Duration::from_secs(30));
        (plan.auto_commit, plan.initial_delay_ms) = (Some(Duration::from_secs(5)), 3000);
        (plan.disruptions, plan.produces, plan.calm) = (Vec::new(), false, Now::from_secs(100_000));
        plan
    }

    /// Whether any process may speak it.
    pub(crate) fn speaks(&self, protocol: GroupProtocol) -> bool {
        self.slots.iter().any(|slot| slot.protocols.contains(&protocol))
    }

    pub(crate) fn mixes_protocols(&self) -> bool {
        self.speaks(GroupProtocol::Classic) && self.speaks(GroupProtocol::Consumer)
    }

    pub(crate) fn has_statics(&self) -> bool {
        self.slots.iter().any(|slot| slot.instance_id.is_some())
    }

    /// The settings of a member of the consumer protocol.
    pub(crate) fn membership(&self, slot: usize) -> ConsumerProtocolConfig {
        ConsumerProtocolConfig { member: self.config(slot).member, assignor: None, falls_back: false }
    }

    /// The settings of a classic member.
    pub(crate) fn config(&self, slot: usize) -> ClassicConfig {
        let slot = &self.slots[slot];
        let member = MemberConfig {
            group_id: GROUP.into(),
            instance_id: slot.instance_id.clone(),
            rack: None,
            session_timeout: self.session,
            quick_heartbeats: QUICK_HEARTBEATS,
            max_poll_interval: self.max_poll,
            auto_commit_interval: self.auto_commit,
            backoff: BACKOFF,
        };
        let assignors = slot.assignors.iter().map(|name| builtin_with(name, self.pace).unwrap()).collect();
        ClassicConfig { member, assignors, heartbeat_interval: self.heartbeat }
    }
}

/// Lists of which every member takes one; all have an assignor in common.
fn strategies(chance: &mut Chance) -> Vec<Vec<&'static str>> {
    let cooperative = vec!["cooperative-sticky"];
    let both = vec!["cooperative-sticky", "range"];
    let (deferred, either) = (vec!["deferred"], vec!["deferred", "cooperative-sticky"]);
    match chance.below(15) {
        0 => vec![vec!["range"]],
        1 => vec![vec!["roundrobin"]],
        2 => vec![vec!["sticky"]],
        // The two bounces of KIP-429.
        3 => vec![vec!["range"], both],
        4 => vec![both, cooperative],
        5 => vec![vec!["range", "sticky"], vec!["sticky", "roundrobin"]],
        6..=8 => vec![deferred],
        9 => vec![vec!["incremental"]],
        // The members that join and leave determine the assignor that all have in common.
        10 => vec![cooperative, either],
        11 => vec![either, deferred],
        _ => vec![cooperative],
    }
}

fn pace(chance: &mut Chance) -> Pace {
    Pace {
        max_delay: chance.ms(1000, 20_000),
        initial_delay: if chance.odds(300) { chance.ms(500, 5000) } else { Duration::ZERO },
        max_moves: *chance.pick(&[None, Some(1), Some(3)]),
        round_interval: chance.ms(500, 4000),
    }
}

fn some_topics(chance: &mut Chance, names: &[Arc<str>]) -> BTreeSet<Arc<str>> {
    if chance.odds(700) {
        return names.iter().cloned().collect();
    }
    let mut some: BTreeSet<Arc<str>> = names.iter().filter(|_| chance.odds(600)).cloned().collect();
    some.insert(chance.pick(names).clone());
    some
}

fn habits(chance: &mut Chance, auto: bool) -> Habits {
    let callbacks = chance.odds(600);
    Habits {
        on_assigned: callbacks && chance.odds(800),
        on_revoked: callbacks && chance.odds(800),
        on_lost: callbacks && chance.odds(800),
        holders: if chance.odds(250) { 2 } else { 1 },
        batch_max: *chance.pick(&[1, 5, 20, 100]),
        hold_ms: *chance.pick(&[1, 50, 500, 3000]),
        callback_ms: *chance.pick(&[0, 5, 300, 1500]),
        commits: if auto { *chance.pick(&[0, 0, 200]) } else { 1000 },
        waits: *chance.pick(&[0, 500, 1000]),
        commits_in_callback: chance.odds(500),
        seeks: *chance.pick(&[0, 0, 0, 30]),
    }
}

fn disruptions(chance: &mut Chance, plan: &Plan, names: &[Arc<str>]) -> Vec<(Now, Disruption)> {
    let mut all: Vec<(Now, Disruption)> = (0..plan.slots.len())
        .map(|slot| (chance.ms(0, *chance.clone().pick(&[0, 50, 3000, 20_000])), Disruption::Start(slot)))
        .collect();
    let end = plan.calm.as_millis() as usize;
    if chance.odds(120) {
        rolling_bounce(chance, plan, &mut all);
    }
    // Some seeds have many disruptions of few kinds, some have a few of each kind.
    let kinds: Vec<usize> = match chance.odds(500) {
        true => (0..KINDS).collect(),
        false => (0..chance.between(1, 3)).map(|_| chance.below(KINDS)).collect(),
    };
    for _ in 0..chance.between(0, 25) {
        let at = chance.ms(1000, end);
        let kind = *chance.pick(&kinds);
        all.push((at, disruption(chance, plan, names, kind)));
    }
    all.extend(retirement(&mut Chance::new(plan.seed ^ 0x7e71), plan));
    all.sort_by_key(|(at, _)| *at);
    all
}

/// One process in some seeds, also after the last fault: what it had must reach those that are left without any help.
fn retirement(chance: &mut Chance, plan: &Plan) -> Option<(Now, Disruption)> {
    if !chance.odds(200) {
        return None;
    }
    let at = chance.ms(5000, plan.calm.as_millis() as usize + 10_000);
    let leaves = *chance.pick(&[Leaves::Killed, Leaves::Closed]);
    Some((at, Disruption::Retire(chance.below(plan.slots.len()), leaves)))
}

fn rolling_bounce(chance: &mut Chance, plan: &Plan, all: &mut Vec<(Now, Disruption)>) {
    let mut at = chance.ms(5000, 15_000);
    let kill = chance.odds(300);
    for slot in 0..plan.slots.len() {
        let back = chance.ms(200, 4000);
        all.push((at, if kill { Disruption::Kill(slot, back) } else { Disruption::Close(slot, back) }));
        at += back + chance.ms(500, 6000);
    }
}

const KINDS: usize = 18;

fn disruption(chance: &mut Chance, plan: &Plan, names: &[Arc<str>], kind: usize) -> Disruption {
    let slot = chance.below(plan.slots.len());
    let node = chance.between(1, plan.nodes as usize) as i32;
    let session = plan.session.as_millis() as usize;
    match kind {
        0 => Disruption::Kill(slot, chance.ms(100, 12_000)),
        1 => Disruption::Close(slot, chance.ms(0, 8000)),
        2 => Disruption::TakeOver(slot),
        3 => Disruption::Pause(slot, chance.ms(200, session * 2)),
        4 => Disruption::Cut(slot),
        5 => Disruption::BlackHole(slot, node, chance.ms(500, session * 2)),
        6 => Disruption::Stall(slot, chance.ms(500, session * 2)),
        7 | 8 => Disruption::LoseAnswer(some_call(chance, plan)),
        9 => Disruption::DelayAnswer(some_call(chance, plan), chance.ms(500, session * 2)),
        10 => Disruption::MoveCoordinator(node),
        11 => Disruption::StopNode(node, chance.ms(200, 10_000)),
        // A static leader that comes back does not know which partitions were there when the assignment was made, and before
        // KIP-814 it does not even hear that it leads.
        12 if !plan.has_statics() || !plan.speaks(GroupProtocol::Classic) => {
            Disruption::Grow(chance.below(names.len()))
        }
        13 => Disruption::Subscribe(slot, some_topics(chance, names)),
        14 => Disruption::Resubscribe(slot, chance.ms(0, 4000)),
        15 => Disruption::Slow(slot, chance.ms(500, plan.max_poll.as_millis() as usize * 3 / 2)),
        // In versions that identify topics by name, a commit to a recreated topic is valid.
        16 if plan.version_cap == i16::MAX => Disruption::Recreate(chance.below(names.len()), chance.ms(0, 5000)),
        _ => Disruption::Rejoin(slot),
    }
}

fn some_call(chance: &mut Chance, plan: &Plan) -> &'static str {
    let classic = plan.speaks(GroupProtocol::Classic) && (!plan.speaks(GroupProtocol::Consumer) || chance.odds(500));
    let calls = if classic { CLASSIC_CALLS } else { CONSUMER_CALLS };
    calls[chance.below(calls.len())]
}
