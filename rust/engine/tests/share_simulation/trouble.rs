//! What goes wrong on purpose, and what comes after.

use std::time::Duration;

use monedula_broker::NodeId;
use monedula_broker::control::{Command, Data, Record};
use monedula_engine::group::Input;
use monedula_engine::group::consumer::member_id;
use monedula_engine::group::share::ShareMember;
use monedula_engine::share::{AcknowledgeType, HeldRows, ShareSessions};
use monedula_engine::{Now, TopicPartition};

use crate::leaders::Loss;
use crate::network::Pid;
use crate::plan::GROUP;
use crate::process::{Doing, Process, Thread};
use crate::world::{CLOSE, Event, Phase, World};

impl World {
    pub(crate) fn start(&mut self, slot: usize) {
        if self.phase != Phase::Trouble && slot < self.plan.users.len() {
            return;
        }
        let (now, habits) = (self.now, self.habits(slot));
        self.last_pid += 1;
        let pid = self.last_pid;
        let random: Vec<u8> = (0..2).flat_map(|_| self.chance.next().to_be_bytes()).collect();
        let id = member_id(random.try_into().unwrap());
        let (seed, idle) = (self.chance.next(), Thread { doing: Doing::Resting, turn: 0 });
        self.trace(|| format!("p{pid} starts in slot {slot}, as {id}: {habits:?}"));
        let process = Process {
            slot,
            member: ShareMember::new(self.plan.membership(), id.clone(), seed),
            member_id: id,
            sessions: ShareSessions::new(self.plan.sessions(), seed),
            held: HeldRows::new(habits.longest_renewal),
            threads: vec![idle; habits.threads],
            habits,
            queue: Default::default(),
            batches: Default::default(),
            decided: Default::default(),
            acquired_at: Default::default(),
            tickets: Default::default(),
            calls: Default::default(),
            in_flight: Default::default(),
            told: Default::default(),
            cluster: Default::default(),
            awaits_metadata: false,
            fetches_ahead: false,
            stopped_until: Now::ZERO,
            closing: None,
            is_done: false,
            woken: (Now::ZERO, 0),
        };
        let threads = process.threads.len();
        self.processes.insert(pid, process);
        (0..threads).for_each(|index| self.push(now, Event::User(pid, index, 0)));
        self.push(now, Event::Refresh(pid));
        self.subscribe(pid);
    }

    /// The user closes: what was decided is sent, and the rest released.
    pub(crate) fn close(&mut self, pid: Pid, time: Duration) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.closing.is_none()) else { return };
        process.closing = Some(now + time);
        process.held.release_rest();
        let decided = process.held.take_decided(None, now);
        for batch in self.processes[&pid].batches.keys().copied().collect::<Vec<_>>() {
            self.mark(pid, batch, |_| Some(AcknowledgeType::Release));
        }
        self.acknowledge(pid, decided);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.sessions.close(now + time);
        }
        self.run_process(pid);
    }

    fn of_slot(&self, slot: usize) -> Option<Pid> {
        let ready = |(_, process): &(&Pid, &Process)| process.slot == slot && process.stopped_until <= self.now;
        self.processes.iter().find(ready).map(|(pid, _)| *pid)
    }

    fn any_node(&mut self) -> i32 {
        self.chance.between(1, self.plan.nodes as usize) as i32
    }

    pub(crate) fn trouble(&mut self) {
        if self.calm {
            return;
        }
        let at = self.now + self.chance.ms(30, 1500);
        self.push(at, Event::Trouble);
        let lock_ms = self.plan.lock.as_millis() as usize;
        let slot = self.chance.below(self.plan.users.len());
        let node = self.any_node();
        match self.chance.below(15) {
            kind @ 0..=4 => {
                if let Some(pid) = self.of_slot(slot) {
                    self.trouble_process(pid, slot, kind);
                }
            }
            5 => {
                if let Some(pid) = self.of_slot(slot) {
                    let until = self.now + self.chance.ms(100, 3000);
                    self.network.black_holes.insert((pid, node), until);
                }
            }
            6 => {
                let of_node = self.network.links.iter().filter(|(_, connection)| connection.node == node);
                let links: Vec<_> = of_node.map(|(link, _)| *link).collect();
                if !links.is_empty() {
                    let (link, until) = (*self.chance.pick(&links), self.now + self.chance.ms(100, 2 * lock_ms));
                    self.network.links.get_mut(&link).unwrap().stalled_until = until;
                }
            }
            7 => {
                let apis = ["ShareFetch", "ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat"];
                self.lose.push(*self.chance.pick(&apis));
            }
            8 | 9 => {
                let partitions: Vec<TopicPartition> = self.leaders.partitions.keys().cloned().collect();
                let TopicPartition { topic, partition } = self.chance.pick(&partitions).clone();
                self.trace(|| format!("--- {topic}-{partition} moves to n{node}"));
                self.control(Command::MoveLeader { topic: topic.to_string(), partition, node: NodeId(node) });
            }
            10 => {
                let group = Some(GROUP.to_owned());
                self.control(Command::MoveCoordinator { group, transactional_id: None, node: NodeId(node) });
                let topic = "__share_group_state".to_owned();
                self.control(Command::MoveLeader { topic, partition: 0, node: NodeId(node) });
            }
            11 if self.stopped_nodes.len() + 1 < self.plan.nodes as usize && self.stopped_nodes.insert(node) => {
                self.trace(|| format!("--- n{node} stops"));
                self.figures.met("nodes stopped", 1);
                self.control(Command::StopNode { node: NodeId(node) });
                let at = self.now + self.chance.ms(100, 6000);
                self.push(at, Event::StartNode(node));
            }
            12 if self.chance.odds(200) => {
                self.trace(|| "--- all locks end".into());
                self.tick();
                self.leaders.release_all(Loss::Session);
                self.control(Command::ExpireLocks { group: GROUP.to_owned() });
            }
            13 | 14 if self.plan.compacts => {
                let partitions: Vec<TopicPartition> = self.leaders.partitions.keys().cloned().collect();
                let at = self.chance.pick(&partitions).clone();
                self.trace(|| format!("--- {at} is compacted"));
                self.control(Command::Compact { topic: at.topic.to_string(), partition: Some(at.partition) });
                let batches = self.batches(&at);
                self.leaders.compacted(&at, &batches);
            }
            _ => {}
        }
    }

    fn trouble_process(&mut self, pid: Pid, slot: usize, kind: usize) {
        let lock_ms = self.plan.lock.as_millis() as usize;
        match kind {
            0 => {
                self.trace(|| format!("--- p{pid} is killed"));
                self.figures.met("killed", 1);
                self.vanish(pid);
                let at = self.now + self.chance.ms(0, 5000);
                self.push(at, Event::Start(slot));
            }
            1 => {
                self.trace(|| format!("--- p{pid} closes"));
                let time = self.chance.ms(50, CLOSE.as_millis() as usize);
                self.close(pid, time);
                let at = self.now + self.chance.ms(0, 5000);
                self.push(at, Event::Start(slot));
            }
            2 => {
                let until = (self.now + self.chance.ms(10, 3 * lock_ms)).min(self.plan.calm);
                self.trace(|| format!("--- p{pid} stands still until {until:?}"));
                self.figures.met("paused", 1);
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.stopped_until = until;
                }
            }
            3 => {
                for link in self.network.of_process(pid) {
                    if self.chance.odds(700) {
                        self.push(self.now, Event::Lost(link));
                    }
                }
            }
            _ => {
                self.trace(|| format!("--- p{pid} unsubscribes"));
                self.tell(pid, Input::Unsubscribe);
                self.run_process(pid);
                let at = self.now + self.chance.ms(0, 3000);
                self.push(at, Event::Resubscribe(pid));
            }
        }
    }

    pub(crate) fn start_node(&mut self, node: i32) {
        if self.stopped_nodes.remove(&node) {
            self.trace(|| format!("--- n{node} starts"));
            self.control(Command::StartNode { node: NodeId(node) });
        }
    }

    pub(crate) fn produce(&mut self) {
        if self.calm {
            return;
        }
        let partitions: Vec<TopicPartition> = self.leaders.partitions.keys().cloned().collect();
        let partition = self.chance.pick(&partitions).clone();
        let count = self.chance.between(1, 12);
        let keys = if self.plan.compacts { 4 } else { 1 << 20 };
        let record = |key: usize| Record {
            key: Some(Data(key.to_string().into())),
            value: Some(Data(vec![b'v'])),
            ..Record::default()
        };
        let records = (0..count).map(|_| record(self.chance.below(keys))).collect();
        // The model has them before a fetch that waits gets them.
        self.tick();
        self.leaders.append(&partition, count);
        let TopicPartition { topic, partition } = partition;
        self.control(Command::Append { topic: topic.to_string(), partition, records, compression: None });
        let at = self.now + self.chance.ms(20, 700);
        self.push(at, Event::Produce);
    }

    /// From here on all is well: users accept all that they have.
    pub(crate) fn calm_down(&mut self) {
        self.trace(|| "--- calm".into());
        self.calm = true;
        self.network.black_holes.clear();
        self.network.links.values_mut().for_each(|link| link.stalled_until = Now::ZERO);
        // A request that its sender gave up could go on in the next session, if its epoch is due there by chance.
        let links = self.network.links.iter();
        let given_up: Vec<_> = links.filter(|(_, link)| !link.client_open).map(|(link, _)| *link).collect();
        given_up.into_iter().for_each(|link| self.fin(link));
        self.lose.clear();
        for node in self.stopped_nodes.clone() {
            self.start_node(node);
        }
        let now = self.now;
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            let batches: Vec<u64> = process.batches.keys().copied().collect();
            let is_held = |batch: &u64| process.threads.iter().any(|thread| thread.doing == Doing::Holding(*batch));
            for batch in batches.into_iter().filter(|batch| !is_held(batch)).collect::<Vec<_>>() {
                self.accept(pid, batch);
            }
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            let decided = process.held.take_decided(None, now);
            self.acknowledge(pid, decided);
            self.run_process(pid);
        }
        if self.plan.closes_all {
            self.phase = Phase::Leaving;
            self.close_all();
        } else {
            let is_open = |process: &Process| process.closing.is_none();
            if !self.processes.values().any(is_open) {
                self.start(self.plan.users.len());
            }
            self.phase = Phase::Draining;
        }
        self.push(self.now, Event::Look);
    }

    fn close_all(&mut self) {
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            self.close(pid, CLOSE);
        }
    }

    /// Whether the next phase begins.
    pub(crate) fn look(&mut self) {
        let is_quiet = self.processes.is_empty() && self.network.links.is_empty();
        match self.phase {
            Phase::Leaving if is_quiet => {
                self.judge_held(|_| true);
                self.phase = Phase::Draining;
                self.start(self.plan.users.len());
            }
            Phase::Draining if self.is_drained() => {
                self.phase = Phase::Closing;
                self.close_all();
            }
            Phase::Closing if is_quiet => {
                self.judge_end();
                self.phase = Phase::Done;
            }
            _ => {}
        }
        let at = self.now + Duration::from_millis(200);
        self.push(at, Event::Look);
    }
}
