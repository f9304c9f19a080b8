//! What goes wrong on purpose.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_engine::TopicPartition;

use crate::checks::Pid;
use crate::plan::{Disruption, GROUP, Leaves};
use crate::process::Doing;
use crate::sometimes::Situation;
use crate::trace::say;
use crate::world::{Event, World};
use monedula_engine::group::{Input, TopicInfo};

/// The most partitions that a topic grows to.
const PARTITIONS: usize = 12;

impl World {
    fn of_slot(&self, slot: usize) -> Option<Pid> {
        self.processes.iter().rev().find(|(_, process)| process.slot == slot).map(|(pid, _)| *pid)
    }

    pub(crate) fn disrupt(&mut self, what: Disruption) {
        match what {
            Disruption::Start(slot) => self.start(slot, false),
            Disruption::Kill(slot, back) => {
                let Some(pid) = self.of_slot(slot) else { return };
                self.kill(pid);
                self.push(self.now + back, Event::Start(slot));
            }
            Disruption::Close(slot, back) => {
                let Some(pid) = self.of_slot(slot) else { return };
                self.close(pid);
                self.push(self.now + back, Event::Start(slot));
            }
            Disruption::Retire(slot, leaves) => {
                self.retired.insert(slot);
                for pid in self.processes.keys().copied().collect::<Vec<_>>() {
                    match leaves {
                        _ if self.processes[&pid].slot != slot => {}
                        Leaves::Killed => self.kill(pid),
                        Leaves::Closed => self.close(pid),
                    }
                }
                self.checks.met.met(Situation::Retired);
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
            Disruption::Recreate(index, back) => self.delete_topic(index, back),
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

    fn kill(&mut self, pid: Pid) {
        if self.processes[&pid].holders.iter().any(|holder| matches!(holder.doing, Doing::Holding(_))) {
            self.checks.met.met(Situation::KilledWithRecords);
        }
        self.checks.died(pid);
        self.vanish(pid);
    }

    /// The user wants a rebalance.
    pub(crate) fn nudge(&mut self, pid: Pid) {
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
                && connection.arrived.front().is_some_and(|request| request.call.api() == "JoinGroup")
        });
        let group = Some(GROUP.to_owned());
        if self.control(Command::MoveCoordinator { group, transactional_id: None, node: NodeId(node) }) && joins {
            self.checks.met.met(Situation::CoordinatorMovedDuringJoin);
        }
    }

    pub(crate) fn start_node(&mut self, node: i32) {
        if self.stopped_nodes.remove(&node) {
            say!(self, "--- node {node} starts");
            self.control(Command::StartNode { node: NodeId(node) });
        }
    }

    pub(crate) fn grow(&mut self, index: usize) {
        let topic = self.plan.topics[index].0.clone();
        let Some(TopicInfo { id, partitions: count }) = self.topics.get(&topic).copied() else { return };
        let more = (count + self.chance.between(1, 3)).min(PARTITIONS);
        if more > count && self.control(Command::AddPartitions { topic: topic.to_string(), partitions: more as i32 }) {
            self.checks.met.met(Situation::Growth);
            for index in count..more {
                self.checks.add_log(TopicPartition::new(topic.clone(), index as i32), 0);
            }
            self.topics.insert(topic, TopicInfo { id, partitions: more });
        }
    }

    pub(crate) fn make_topic(&mut self, index: usize) {
        let (topic, partitions, start) = self.plan.topics[index].clone();
        if self.topics.contains_key(&topic) {
            return;
        }
        let create = Command::CreateTopic {
            topic: topic.to_string(),
            partitions: Some(partitions as i32),
            replicas: Some(1),
            config: BTreeMap::new(),
        };
        // All nodes are stopped.
        let Ok(made) = self.core.control(self.ms(), create) else {
            return self.push(self.now + Duration::from_millis(500), Event::MakeTopic(index));
        };
        let id = made["id"].as_str().and_then(|id| id.parse().ok()).unwrap();
        self.drain();
        say!(self, "--- {topic} is {id}, with {partitions} partitions");
        for index in 0..partitions {
            self.checks.add_log(TopicPartition::new(topic.clone(), index as i32), start);
        }
        self.checks.named(id, &topic);
        self.topics.insert(topic, TopicInfo { id, partitions });
    }

    fn delete_topic(&mut self, index: usize, back: Duration) {
        let topic = self.plan.topics[index].0.clone();
        if self.topics.remove(&topic).is_some() {
            self.checks.met.met(Situation::TopicMadeAnew);
            self.control(Command::DeleteTopic { topic: topic.to_string() });
            self.checks.remove_logs(&topic);
            self.push(self.now + back, Event::MakeTopic(index));
        }
    }

    pub(crate) fn produce(&mut self) {
        let partitions: Vec<TopicPartition> = self.checks.logs.keys().cloned().collect();
        if !partitions.is_empty() {
            let partition = self.chance.pick(&partitions).clone();
            let records = self.chance.between(1, 10) as i64;
            self.checks.append(&partition, records);
        }
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
}
