//! A model check of the classic group: the coordinator's state machine with two or three members. It explores every
//! order in which requests arrive, also late or twice, answers are delayed or lost, members crash, restart and leave,
//! timers fire, and the coordinator fails over.
//!
//! Time is not modelled: a scheduled timer can fire at once, and timers in any order. Generations grow without end, but
//! only their distance from the stored generation matters. The invariants of every state are in [`World::check`], those
//! of a step in [`World::hand_out`] and [`World::store`]; [`World::converges`] checks liveness.
//!
//! A generation is stored when its leader has sent the assignment. A failover forgets a generation that was sent to
//! members but not stored, and its number is used again. So the generations that members receive are compared within
//! the term of one coordinator only, and a late request does not outlive the coordinator that it was sent to: the
//! protocol itself does not survive one that does.

mod converge;
mod invariants;
mod process;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;

use super::*;
use crate::groups::model::{Model, assert_found, search};
use crate::groups::{GroupAnswer, records};
use crate::planted::Bug;
use crate::request::{ConnectionId, Ticket};
use process::{Process, Received, Request, Waits};

/// The correlation id of a request whose answer its process awaits; `GIVEN_UP` is that of a request whose answer is
/// discarded.
const AWAITED: i32 = 0;
const GIVEN_UP: i32 = 1;
/// The bound on the member ids that one process can have in use at once.
const LIVES: usize = 3;
/// The bound on the generations that begin without being stored.
const UNSTORED: i32 = 2;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Delivery {
    Arrives,
    /// The request arrives, and is repeated later.
    Twice,
    /// The request arrives only after its sender has abandoned it.
    Late,
}

#[derive(Clone, Debug)]
enum Action {
    Join(usize, Delivery),
    /// The process, and which of two assignments a leader sends.
    Sync(usize, usize, Delivery),
    Heartbeat(usize),
    Receive(usize),
    /// The process abandons its request, or its connection breaks: the answer is lost.
    GiveUp(usize),
    /// The late request arrives.
    Arrive(usize),
    Leave(usize),
    Crash(usize),
    Fire(Timer),
    FailOver,
}

/// The messages of one coordinator to the members of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Told {
    generation: i32,
    leader: String,
    protocol: Option<Arc<str>>,
    ids: BTreeSet<Arc<str>>,
}

/// The stored generation; 0 if nothing is stored.
#[derive(Clone, Debug, Default)]
struct Stored {
    generation: i32,
    value: Option<Bytes>,
    owned: BTreeMap<Arc<str>, u8>,
}

#[derive(Copy, Clone, Debug)]
struct Layout {
    members: usize,
    partitions: usize,
    /// The number of static members, which are the first ones.
    statics: usize,
    version: i16,
    initial_delay_ms: i32,
    /// True if requests can arrive late.
    late: bool,
}

const TWO: Layout = Layout { members: 2, partitions: 2, statics: 0, version: 9, initial_delay_ms: 0, late: true };

#[derive(Clone, Debug)]
struct World {
    layout: Layout,
    group: ClassicGroup,
    stored: Stored,
    told: Option<Told>,
    processes: Vec<Process>,
}

impl World {
    fn new(layout: Layout) -> Self {
        Self {
            layout,
            group: ClassicGroup::new("g".into()),
            stored: Stored::default(),
            told: None,
            processes: vec![Process::default(); layout.members],
        }
    }

    fn instance(&self, index: usize) -> Option<&'static str> {
        ["i0", "i1", "i2"].get(index).copied().filter(|_| index < self.layout.statics)
    }

    /// A member id that is not in use anywhere. Ids are reused once nothing refers to them, which keeps the states
    /// finite.
    fn free_id(&self, index: usize) -> Arc<str> {
        let told = self.told.iter().flat_map(|told| &told.ids);
        let group = self.group.members.keys().chain(&self.group.pending).chain(self.stored.owned.keys());
        let used: BTreeSet<&str> =
            self.processes.iter().flat_map(Process::ids).chain(group).chain(told).map(|id| &**id).collect();
        let mut life = 0;
        loop {
            let id = format!("m{index}-{life}");
            if !used.contains(&*id) {
                return id.into();
            }
            life += 1;
        }
    }

    /// True if a process may join as a new member, within the bound of [`LIVES`].
    fn has_lives(&self, index: usize) -> bool {
        *self.free_id(index) < *format!("m{index}-{LIVES}")
    }

    fn rules(&self) -> JoinRules {
        JoinRules { initial_delay_ms: self.layout.initial_delay_ms, max_size: usize::MAX }
    }

    /// Lets the coordinator handle a request.
    fn work(&mut self, index: usize, request: &Request, correlation_id: i32) -> Result<(), String> {
        let ticket = Ticket { connection: ConnectionId(index as u64), version: self.layout.version, correlation_id };
        let mut effects = Effects::default();
        match request {
            Request::Join { id } => {
                let names = if index == 0 { ["a", "b"] } else { ["b", "a"] };
                let metadata = Bytes::copy_from_slice(&[index as u8]);
                let join = Join {
                    ticket,
                    member_id: id,
                    new_member_id: self.free_id(index),
                    new_consumer_member_id: "".into(),
                    instance_id: self.instance(index),
                    client_id: "c",
                    client_host: "/h".into(),
                    session_timeout_ms: 10,
                    rebalance_timeout_ms: 10,
                    protocol_type: "t",
                    protocols: names.map(|name| Protocol { name: name.into(), metadata: metadata.clone() }).into(),
                    reason: "",
                    rules: self.rules(),
                };
                self.group.join(0, join, &mut effects);
            }
            Request::Sync { id, generation, assignments } => {
                let who =
                    MemberIdentity { member_id: id, instance_id: self.instance(index), generation_id: *generation };
                let assignments = assignments.iter().map(|(id, mask)| (&**id, std::slice::from_ref(mask))).collect();
                let sync = Sync { ticket, who, protocol_type: None, protocol_name: None, assignments };
                self.group.sync(0, &sync, &mut effects);
            }
        }
        self.carry_out(effects)
    }

    /// Stores the records, then delivers the answers.
    fn carry_out(&mut self, effects: Effects) -> Result<(), String> {
        if effects.broken.is_some() {
            return Err("a record could not be made".into());
        }
        for record in effects.records {
            self.store(record.value.ok_or("the group is removed")?)?;
        }
        // The member ids in leaders' JoinGroup answers.
        let mut listed = BTreeSet::new();
        for (ticket, answer) in effects.answers {
            if let GroupAnswer::Join(join) = &answer
                && !join.skip_assignment
            {
                listed.extend(join.members.iter().map(|member| Arc::clone(&member.member_id)));
            }
            self.hand_out(ticket, answer)?;
        }
        let Some(told) = &mut self.told else { return Ok(()) };
        let absent = |id: &&Arc<str>| self.layout.statics <= owner(id) && !told.ids.contains(*id);
        if let Some(id) = listed.iter().find(absent) {
            return Err(format!("{id} is in generation {} without having joined", told.generation));
        }
        if self.group.state != ClassicState::CompletingRebalance {
            told.ids.clear();
        }
        Ok(())
    }

    /// Stores a record. Only one assignment of a generation may ever be stored, with one owner for each partition.
    fn store(&mut self, value: Bytes) -> Result<(), String> {
        let read = records::read_classic_group(&value).unwrap();
        let mask = |assignment: &[u8]| assignment.first().copied().unwrap_or(0);
        let owned: BTreeMap<Arc<str>, u8> =
            read.members.iter().map(|member| (member.member_id.into(), mask(member.assignment))).collect();
        let all = owned.values().fold(0, |all, mask| all | mask);
        let count: u32 = owned.values().map(|mask| mask.count_ones()).sum();
        if !owned.is_empty() && (all != self.all_partitions() || count != all.count_ones()) {
            return Err(format!("a partition has not one owner: {owned:?}"));
        }
        // A static member that comes back has another id, but keeps its assignment.
        let by_owner = |owned: &BTreeMap<Arc<str>, u8>| {
            let mut owned: Vec<_> = owned.iter().map(|(id, &mask)| (owner(id), mask)).collect();
            owned.sort_unstable();
            owned
        };
        let before = &self.stored;
        let is_same = read.generation == before.generation && by_owner(&owned) == by_owner(&before.owned);
        if read.generation <= before.generation && !is_same {
            return Err(format!("generation {} is stored after {before:?}: {owned:?}", read.generation));
        }
        self.stored = Stored { generation: read.generation, owned, value: Some(value.clone()) };
        Ok(())
    }

    fn all_partitions(&self) -> u8 {
        (1 << self.layout.partitions) - 1
    }

    /// Delivers an answer. It must agree with the answers to other members, and with what is stored.
    fn hand_out(&mut self, ticket: Ticket, answer: GroupAnswer) -> Result<(), String> {
        let index = ticket.connection.0 as usize;
        let received = match &answer {
            GroupAnswer::Join(join) => {
                if join.error == ErrorCode::None {
                    self.tell(join)?;
                }
                Received::of_join(join)
            }
            GroupAnswer::Sync(sync) => Received::of_sync(sync),
        };
        if ticket.correlation_id == GIVEN_UP {
            return Ok(());
        }
        let process = &mut self.processes[index];
        let is_sync = matches!(answer, GroupAnswer::Sync(_));
        if process.inbox.is_some() || process.waits != if is_sync { Waits::ForSync } else { Waits::ForJoin } {
            return Err(format!("member {index} is answered what it has not asked: {answer:?}"));
        }
        let stored = (self.stored.generation, self.stored.owned.get(&process.id).copied());
        if is_sync && received.error == ErrorCode::None && stored != (process.generation, Some(received.owned)) {
            return Err(format!("member {index} is given what is not stored: {received:?}, {:?}", self.stored));
        }
        process.inbox = Some(received);
        Ok(())
    }

    /// Checks a JoinGroup answer: all members of a generation must receive the same leader and protocol.
    fn tell(&mut self, join: &JoinAnswer) -> Result<(), String> {
        // Compares the leader's process, not its id: before KIP-814 a static leader that comes back receives its former
        // id.
        let leader = join.leader.split('-').next().unwrap_or_default().to_owned();
        let (generation, protocol) = (join.generation_id, join.protocol_name.clone());
        let ids = BTreeSet::new();
        let mut told = match self.told.take() {
            Some(told) if told.generation >= generation => told,
            _ => Told { generation, leader: leader.clone(), protocol: protocol.clone(), ids },
        };
        if (told.generation, &told.leader, &told.protocol) != (generation, &leader, &protocol) || leader.is_empty() {
            return Err(format!("another member was told {told:?}: {join:?}"));
        }
        told.ids.insert(Arc::clone(&join.member_id));
        self.told = Some(told);
        Ok(())
    }

    /// Discards the answers to a process's requests, those delivered and those to come.
    fn disown(&mut self, index: usize) {
        self.processes[index].inbox = None;
        let tickets = self.group.members.values_mut().flat_map(|member| [&mut member.joining, &mut member.syncing]);
        for ticket in tickets.flatten().filter(|ticket| ticket.connection.0 == index as u64) {
            ticket.correlation_id = GIVEN_UP;
        }
    }

    fn fire(&mut self, timer: Timer) -> Result<(), String> {
        self.group.schedule(timer, 0);
        let mut effects = Effects::default();
        self.group.expire(0, &mut effects);
        self.carry_out(effects)
    }

    fn fail_over(&mut self) -> Result<(), String> {
        let mut effects = Effects::default();
        self.group.abandon(ErrorCode::NotCoordinator, &mut effects);
        self.carry_out(effects)?;
        self.told = None;
        self.processes.iter_mut().for_each(|process| process.late = None);
        self.group = match &self.stored.value {
            Some(value) => ClassicGroup::from_record("g".into(), &records::read_classic_group(value).unwrap()),
            None => ClassicGroup::new("g".into()),
        };
        let mut effects = Effects::default();
        self.group.loaded(0, self.rules(), &mut effects);
        self.carry_out(effects)
    }
}

/// The process that a member id belongs to.
fn owner(id: &str) -> usize {
    usize::from(id.as_bytes()[1] - b'0')
}

impl Model for World {
    type Action = Action;
    type Key = Vec<u8>;

    fn actions(&self) -> Vec<Action> {
        let mut actions: Vec<_> = self.group.due_ms.keys().cloned().map(Action::Fire).collect();
        actions.push(Action::FailOver);
        for (index, process) in self.processes.iter().enumerate() {
            let late = self.layout.late && process.late.is_none();
            let deliveries =
                if late { &[Delivery::Arrives, Delivery::Twice, Delivery::Late][..] } else { &[Delivery::Arrives] };
            if process.waits == Waits::No {
                let joins = !process.id.is_empty() || self.has_lives(index);
                actions.extend(deliveries.iter().filter(|_| joins).map(|&delivery| Action::Join(index, delivery)));
            } else {
                actions.push(Action::GiveUp(index));
            }
            if process.can_sync() {
                let variants = if process.view.is_empty() { 1 } else { 2 };
                let syncs =
                    (0..variants).flat_map(|variant| deliveries.iter().map(move |&delivery| (variant, delivery)));
                actions.extend(syncs.map(|(variant, delivery)| Action::Sync(index, variant, delivery)));
            }
            if process.is_stable() {
                actions.push(Action::Heartbeat(index));
            }
            if process.inbox.is_some() {
                actions.push(Action::Receive(index));
            }
            if process.late.is_some() {
                actions.push(Action::Arrive(index));
            }
            if process.running {
                actions.extend([Action::Crash(index), Action::Leave(index)]);
            }
        }
        actions
    }

    fn step(&mut self, action: &Action) -> Result<(), String> {
        let generation = self.group.generation_id;
        match action {
            Action::Join(index, delivery) => self.send_join(*index, *delivery)?,
            Action::Sync(index, variant, delivery) => self.send_sync(*index, *variant, *delivery)?,
            Action::Heartbeat(index) => self.heartbeat(*index)?,
            Action::Receive(index) => self.processes[*index].receive()?,
            Action::GiveUp(index) => {
                self.disown(*index);
                self.processes[*index].give_up();
            }
            Action::Arrive(index) => {
                if let Some(request) = self.processes[*index].late.take() {
                    self.work(*index, &request, GIVEN_UP)?;
                }
            }
            Action::Leave(index) => self.leave(*index)?,
            Action::Crash(index) => self.stop(*index),
            Action::Fire(timer) => self.fire(timer.clone())?,
            Action::FailOver => self.fail_over()?,
        }
        let least = if matches!(action, Action::FailOver) { self.stored.generation } else { generation };
        if self.group.generation_id < least {
            return Err(format!("the generation went back from {generation} to {}", self.group.generation_id));
        }
        self.check()
    }

    fn converges(&self, settling: &mut HashSet<Vec<u8>>) -> Result<(), String> {
        World::converges(self, settling)
    }

    fn key(&self) -> Vec<u8> {
        let mut key = Key(Vec::with_capacity(256));
        // A member in an older generation than the stored one cannot be in a later one, so all older ones count as one.
        let relative = |generation: i32| (generation - self.stored.generation).max(-1);
        let group = &self.group;
        (group.state, group.initial, relative(group.generation_id), group.member_added).hash(&mut key);
        (&group.protocol_type, &group.protocol_name, &group.leader, &group.pending, &group.unsynced).hash(&mut key);
        for (id, member) in &group.members {
            let waits = |ticket: Option<Ticket>| ticket.map(|ticket| (ticket.connection.0, ticket.correlation_id));
            (id, waits(member.joining), waits(member.syncing), member.is_new, &member.assignment).hash(&mut key);
            member.protocols.iter().for_each(|protocol| protocol.name.hash(&mut key));
        }
        for timer in group.due_ms.keys() {
            match timer {
                Timer::Session(id) => id.hash(&mut key),
                Timer::Join => 1_u8.hash(&mut key),
                Timer::FirstJoin { remaining_ms, .. } => remaining_ms.hash(&mut key),
                Timer::Sync => 2_u8.hash(&mut key),
            }
        }
        self.stored.owned.hash(&mut key);
        self.stored.value.is_some().hash(&mut key);
        let told = self.told.as_ref().filter(|told| told.generation >= self.stored.generation);
        told.map(|told| Told { generation: relative(told.generation), ..told.clone() }).hash(&mut key);
        for process in &self.processes {
            process.relative(&relative).hash(&mut key);
        }
        key.0
    }

    fn is_within_bounds(&self) -> bool {
        let told = self.processes.iter().map(|process| process.generation).max().unwrap_or(0);
        self.group.generation_id.max(told) - self.stored.generation <= UNSTORED
    }
}

/// A hasher that keeps the bytes, so that two states never count as one by a collision.
struct Key(Vec<u8>);

impl Hasher for Key {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Searches from an empty group, and from a stable one with all members.
fn explore(layout: Layout, limit: usize) {
    for first in [World::new(layout), World::settled(layout)] {
        let (states, all) = search(first, limit).unwrap();
        println!("{layout:?}: {states} states, all of them: {all}");
    }
}

#[test]
fn two_members_and_two_partitions() {
    explore(TWO, 40_000);
}

#[test]
fn two_members_without_late_requests() {
    explore(Layout { late: false, ..TWO }, 40_000);
}

#[test]
fn two_members_that_are_not_given_an_id_first() {
    explore(Layout { version: 3, ..TWO }, 30_000);
}

#[test]
fn a_group_that_waits_for_more_members_at_first() {
    explore(Layout { initial_delay_ms: 6, late: false, ..TWO }, 30_000);
}

#[test]
fn static_members() {
    explore(Layout { statics: 1, ..TWO }, 30_000);
    explore(Layout { statics: 2, version: 8, late: false, ..TWO }, 30_000);
}

#[test]
fn three_members_and_three_partitions() {
    explore(Layout { members: 3, partitions: 3, ..TWO }, 30_000);
}

#[test]
#[ignore = "minutes: the same, as far as memory goes"]
fn much_deeper() {
    explore(Layout { late: false, ..TWO }, 2_000_000);
    explore(Layout { statics: 1, ..TWO }, 2_000_000);
    explore(Layout { members: 3, partitions: 3, late: false, ..TWO }, 2_000_000);
}

#[test]
fn planted_bugs_are_found() {
    let bugs = [Bug::AnswerSyncEarly, Bug::KeepGeneration, Bug::KeepLate, Bug::ForgetMember];
    assert_found(&bugs, || search(World::new(Layout { late: false, ..TWO }), 60_000));
}
