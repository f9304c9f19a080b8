//! A model check of the consumer group: the coordinator's state machine with two or three members. It explores every
//! order in which requests are handled, answers are lost, requests are repeated, members crash, restart, leave and
//! expire, topics grow, and the coordinator fails over.
//!
//! Epochs grow without end, but only their order matters: states that differ in nothing else count as one, which keeps
//! their number finite. The invariants are in [`World::check`], and [`World::converges`] checks liveness.
//!
//! Two things are not modelled, because the protocol itself does not survive them. A request does not arrive after a
//! later one of the same member: it would acknowledge the revocation of partitions that were assigned to the member
//! since. For the same reason, a member that reports its owned partitions drops an assignment that it has not applied
//! yet; the answer repeats it.

mod converge;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;
use monedula_protocol::wire::Reader;

use super::describe::GroupState;
use super::*;
use crate::groups::model::{self, Model, assert_found};
use crate::planted::Bug;

const TOPIC: Uuid = Uuid([7; 16]);

/// The only topic, with its partition count.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
struct Topic(i32);

impl Image for Topic {
    fn topic_id(&self, name: &str) -> Option<Uuid> {
        (name == "t").then_some(TOPIC)
    }

    fn topic_name(&self, id: Uuid) -> Option<Arc<str>> {
        (id == TOPIC).then(|| "t".into())
    }

    fn partitions(&self, id: Uuid) -> Option<i32> {
        (id == TOPIC).then_some(self.0)
    }

    fn names(&self) -> Vec<Arc<str>> {
        vec!["t".into()]
    }
}

/// The process of a member, with its own view of its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    running: bool,
    epoch: i32,
    /// The partitions that it reads.
    owned: BTreeSet<i32>,
    /// The assignment that it has received and not applied yet.
    told: Option<BTreeSet<i32>>,
    /// True if the coordinator has removed it without its knowledge.
    is_ghost: bool,
    /// The parity of the count of its restarts: a static member has another id after each.
    life: u8,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Loss {
    None,
    /// The request is handled, and the answer is lost.
    Answer,
    /// The request is handled twice, and the first answer arrives.
    Twice,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Action {
    Join(usize, Loss),
    /// The process sends a full heartbeat, with all that it owns.
    Full(usize, Loss),
    /// The process sends a heartbeat without changes.
    Short(usize, Loss),
    /// The process applies the assignment that it has received.
    Follow(usize),
    Leave(usize),
    LeaveForAWhile(usize),
    Crash(usize),
    Expire(usize),
    Grow,
    FailOver,
}

#[derive(Clone, Debug)]
struct World {
    group: ConsumerGroup,
    /// The same group, read back from the stored records.
    stored: ConsumerGroup,
    processes: Vec<Process>,
    topic: Topic,
    max_partitions: i32,
    /// The number of static members, which are the first ones.
    statics: usize,
}

impl World {
    fn new(members: usize, partitions: i32, max_partitions: i32, statics: usize) -> Self {
        Self {
            group: ConsumerGroup::new("g".into()),
            stored: ConsumerGroup::new("g".into()),
            processes: vec![Process::default(); members],
            topic: Topic(partitions),
            max_partitions,
            statics,
        }
    }

    fn id(&self, index: usize) -> Arc<str> {
        let life = if index < self.statics { self.processes[index].life } else { 0 };
        format!("m{index}-{life}").into()
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = vec![Action::FailOver];
        if self.topic.0 < self.max_partitions {
            actions.push(Action::Grow);
        }
        for (index, process) in self.processes.iter().enumerate() {
            for loss in [Loss::None, Loss::Answer, Loss::Twice] {
                match process.running && process.epoch > 0 {
                    true => actions.extend([Action::Full(index, loss), Action::Short(index, loss)]),
                    false => actions.push(Action::Join(index, loss)),
                }
            }
            if process.running {
                actions.extend([Action::Crash(index), Action::Leave(index)]);
                if index < self.statics {
                    actions.push(Action::LeaveForAWhile(index));
                }
            }
            if process.told.is_some() {
                actions.push(Action::Follow(index));
            }
            if self.group.members.contains_key(&self.id(index)) {
                actions.push(Action::Expire(index));
            }
        }
        actions
    }

    fn step(&mut self, action: Action) -> Result<(), String> {
        let (epoch, target_epoch) = (self.group.epoch, self.group.target_epoch);
        match action {
            Action::Join(index, loss) => {
                self.processes[index].running = true;
                self.processes[index].epoch = JOIN_EPOCH;
                self.send(index, true, loss)?;
            }
            Action::Full(index, loss) => self.send(index, true, loss)?,
            Action::Short(index, loss) => self.send(index, false, loss)?,
            Action::Follow(index) => {
                let process = &mut self.processes[index];
                if let Some(told) = process.told.take() {
                    process.owned = told;
                }
            }
            Action::Leave(index) => {
                if self.group.members.contains_key(&self.id(index)) {
                    self.fence(index);
                }
                self.stop(index);
            }
            Action::LeaveForAWhile(index) => {
                let changes = self.group.leave_for_a_while(&self.id(index));
                self.store(&changes);
                self.stop(index);
            }
            Action::Crash(index) => self.stop(index),
            Action::Expire(index) => {
                self.fence(index);
                self.processes[index].is_ghost = self.processes[index].running;
            }
            Action::Grow => {
                self.topic.0 += 1;
                self.group.request_refresh();
            }
            Action::FailOver => {
                self.group = self.stored.clone();
                self.group.request_refresh();
            }
        }
        if self.group.epoch < epoch || self.group.target_epoch < target_epoch {
            return Err(format!("an epoch went back: {epoch}, {target_epoch}"));
        }
        self.check()
    }

    /// Ends the process and clears its state. A static member's next process has another id.
    fn stop(&mut self, index: usize) {
        let life = self.processes[index].life ^ 1;
        self.processes[index] = Process { life, ..Process::default() };
    }

    fn fence(&mut self, index: usize) {
        let gone = [self.id(index)].into();
        let (topic, settings) = (self.topic, settings());
        let changes = self.group.fence(&Context { now_ms: 0, image: &topic, settings }, &gone);
        self.store(&changes);
    }

    fn store(&mut self, changes: &[Change]) {
        for change in changes {
            let record = change.record("g").unwrap();
            let mut key = Reader::new(&record.key);
            let version = key.i16().unwrap();
            let read = read_record(version, &mut key, record.value.as_deref()).unwrap();
            self.stored.apply(&read);
        }
    }

    fn request(&self, index: usize, full: bool) -> Heartbeat {
        let process = &self.processes[index];
        let owned = process.owned.iter().map(|&partition| (TOPIC, partition)).collect();
        Heartbeat {
            member_id: self.id(index),
            member_epoch: process.epoch,
            instance_id: (index < self.statics).then(|| format!("i{index}").into()),
            rack_id: None,
            rebalance_timeout_ms: if full { 1000 } else { -1 },
            subscribed_names: full.then(|| [Arc::from("t")].into()),
            subscribed_regex: None,
            server_assignor: None,
            owned: full.then_some(owned),
            client_id: "c".into(),
            client_host: "/h".into(),
        }
    }

    fn send(&mut self, index: usize, full: bool, loss: Loss) -> Result<(), String> {
        if self.processes[index].epoch == JOIN_EPOCH {
            // A member that joins again owns nothing.
            self.processes[index].owned.clear();
        }
        if full {
            self.processes[index].told = None;
        }
        let request = self.request(index, full);
        let answer = self.work(index, &request)?;
        if loss == Loss::Twice {
            // The second answer is lost.
            let _ = self.work(index, &request)?;
        }
        if loss != Loss::Answer {
            self.receive(index, answer)?;
        }
        Ok(())
    }

    /// Lets the coordinator handle a request.
    fn work(&mut self, index: usize, request: &Heartbeat) -> Result<Result<HeartbeatAnswer, ErrorCode>, String> {
        let (topic, settings) = (self.topic, settings());
        let before = self.group.members.get(&request.member_id).cloned();
        let context = Context { now_ms: 0, image: &topic, settings };
        let answer = self.group.heartbeat(&context, request);
        let is_late = before.is_some_and(|member| {
            let missed_one = request.member_epoch == member.previous_epoch
                && request.owned.as_ref().is_some_and(|owned| {
                    owned.iter().all(|(topic, partition)| member.assigned.contains(topic, partition))
                });
            request.member_epoch != JOIN_EPOCH && request.member_epoch != member.epoch && !missed_one
        });
        if is_late && answer.is_ok() {
            return Err(format!("an epoch that is not the member's was accepted: {request:?}"));
        }
        match answer {
            Ok((answer, changes)) => {
                self.store(&changes);
                if request.member_epoch == JOIN_EPOCH {
                    self.processes[index].is_ghost = false;
                }
                Ok(Ok(answer))
            }
            Err(refusal) => Ok(Err(refusal.code)),
        }
    }

    fn receive(&mut self, index: usize, answer: Result<HeartbeatAnswer, ErrorCode>) -> Result<(), String> {
        let process = &mut self.processes[index];
        match answer {
            Ok(answer) => {
                if answer.member_epoch < process.epoch {
                    return Err(format!("member {index} went back from epoch {}", process.epoch));
                }
                process.epoch = answer.member_epoch;
                if let Some(assignment) = answer.assignment {
                    let told: BTreeSet<i32> = assignment.iter().map(|(_, partition)| partition).collect();
                    process.told = Some(told).filter(|told| *told != process.owned);
                }
            }
            Err(ErrorCode::UnreleasedInstanceId) => process.running = false,
            // The member has lost its partitions, and joins again.
            Err(_) => *process = Process { running: true, life: process.life, ..Process::default() },
        }
        Ok(())
    }

    /// The invariants of every state.
    fn check(&self) -> Result<(), String> {
        let mut owners = BTreeSet::new();
        let mut holders = BTreeSet::new();
        for member in self.group.members.values() {
            for (_, partition, _) in member.assigned.iter().chain(member.pending_revocation.iter()) {
                if !holders.insert(partition) {
                    return Err(format!("the coordinator has given partition {partition} to two members"));
                }
            }
        }
        for (index, process) in self.processes.iter().enumerate().filter(|(_, process)| !process.is_ghost) {
            let member = self.group.members.get(&self.id(index));
            for &partition in &process.owned {
                if !owners.insert(partition) {
                    return Err(format!("two members own partition {partition}"));
                }
                let knows = |member: &ConsumerMember| {
                    member.assigned.contains(TOPIC, partition) || member.pending_revocation.contains(TOPIC, partition)
                };
                if !member.is_some_and(knows) {
                    return Err(format!("member {index} owns {partition}, and the coordinator does not know"));
                }
            }
        }
        if key_of(&self.group, true) != key_of(&self.stored, true) {
            return Err(format!("what is stored is another group: {:?} {:?}", self.group, self.stored));
        }
        Ok(())
    }

    /// The key that tells two states apart, with epochs replaced by their ranks.
    fn key(&self) -> Vec<i32> {
        // The assignment epochs of partitions matter to commits only, so they are left out.
        let mut key = key_of(&self.group, false);
        for process in &self.processes {
            let flags = i32::from(process.running) | i32::from(process.is_ghost) << 1 | i32::from(process.life) << 2;
            key.extend([mark(flags), process.epoch, mark(mask(&process.owned))]);
            key.push(mark(process.told.as_ref().map_or(99, mask)));
        }
        key.push(mark(self.topic.0 << 1 | i32::from(self.group.refresh)));
        let epochs: BTreeSet<i32> = key.iter().copied().filter(|&value| value > 0).collect();
        let order: Vec<i32> = epochs.into_iter().collect();
        for value in key.iter_mut().filter(|value| **value > 0) {
            *value = order.binary_search(value).unwrap() as i32 + 1;
        }
        key
    }
}

/// Maps a number to one that cannot be an epoch. Epochs are at least -2.
fn mark(value: i32) -> i32 {
    -10 - value
}

fn mask(partitions: &BTreeSet<i32>) -> i32 {
    partitions.iter().fold(0, |mask, partition| mask | 1 << partition)
}

/// The stored state of a group as numbers; with assignment epochs if `with_given`.
fn key_of(group: &ConsumerGroup, with_given: bool) -> Vec<i32> {
    let mut key = vec![group.epoch, group.target_epoch, mark((group.metadata_hash & 0xffff) as i32)];
    for member in group.members.values() {
        let name = member.id.bytes().fold(0, |name, byte| name * 7 + i32::from(byte)) & 0xffff;
        key.extend([mark(name), mark(i32::from(member.state.code())), member.epoch, member.previous_epoch]);
        for held in [&member.assigned, &member.pending_revocation] {
            for (_, partition, epoch) in held.iter() {
                key.extend([mark(partition), if with_given { epoch } else { 0 }]);
            }
            key.push(mark(77));
        }
    }
    for (id, target) in &group.targets {
        let name = id.bytes().fold(0, |name, byte| name * 7 + i32::from(byte)) & 0xffff;
        key.push(mark(name));
        target.iter().for_each(|(_, partition)| key.push(mark(partition)));
    }
    key
}

fn settings() -> &'static ConsumerSettings {
    static SETTINGS: LazyLock<ConsumerSettings> =
        LazyLock::new(|| ConsumerSettings::new(&crate::settings::KafkaSettings::default()));
    &SETTINGS
}

impl Model for World {
    type Action = Action;
    type Key = Vec<i32>;

    fn actions(&self) -> Vec<Action> {
        World::actions(self)
    }

    fn step(&mut self, action: &Action) -> Result<(), String> {
        World::step(self, *action)
    }

    fn converges(&self, _settling: &mut HashSet<Vec<i32>>) -> Result<(), String> {
        World::converges(self)
    }

    fn key(&self) -> Vec<i32> {
        World::key(self)
    }
}

fn search(first: World, limit: usize) -> Result<(usize, bool), String> {
    model::search(first, limit)
}

#[test]
fn two_members_and_two_partitions() {
    let (states, all) = search(World::new(2, 2, 2, 0), 40_000).unwrap();
    println!("{states} states, all of them: {all}");
}

#[test]
fn a_topic_that_grows() {
    let (states, all) = search(World::new(2, 1, 2, 0), 15_000).unwrap();
    println!("{states} states, all of them: {all}");
}

#[test]
fn a_static_member() {
    let (states, all) = search(World::new(2, 2, 2, 1), 20_000).unwrap();
    println!("{states} states, all of them: {all}");
}

#[test]
fn three_members_and_three_partitions() {
    let (states, all) = search(World::new(3, 3, 3, 0), 20_000).unwrap();
    println!("{states} states, all of them: {all}");
}

#[test]
#[ignore = "minutes: the same, as far as memory goes"]
fn much_deeper() {
    for (members, partitions, max, statics) in [(2, 2, 3, 0), (2, 2, 2, 2), (3, 2, 2, 0), (3, 3, 3, 1)] {
        let (states, all) = search(World::new(members, partitions, max, statics), 3_000_000).unwrap();
        println!("{members} members: {states} states, all of them: {all}");
    }
}

#[test]
fn planted_bugs_are_found() {
    let bugs =
        [Bug::GiveBeforeReported, Bug::SilenceIsAck, Bug::AcceptStaleEpoch, Bug::ForgetRevocation, Bug::SkipBump];
    assert_found(&bugs, || search(World::new(2, 2, 2, 0), 60_000));
}
