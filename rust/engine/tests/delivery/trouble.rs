//! The faults of a run, until they end.

use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_engine::produce::Input;

use crate::broker::{NODES, TOPIC};
use crate::network::Lane;
use crate::sim::{Event, Sim, TROUBLE, ms};

/// Longest stall of a connection: its client has closed it long before, and has repeated its requests.
const LATEST_MS: u64 = 3000;

impl Sim {
    pub(crate) fn trouble(&mut self) {
        if self.now >= TROUBLE {
            return self.calm_down();
        }
        let pause = 20 + self.below(150);
        self.at(ms(pause), Event::Trouble);
        let node = 1 + self.below(u64::from(NODES)) as i32;
        let partition = self.below(self.partitions as u64) as i32;
        let lane = if self.user.is_some() && self.below(3) == 0 { Lane::Calls } else { Lane::Records };
        let kinds = if self.user.is_some() { 9 } else { 7 };
        match self.below(kinds) {
            0 | 1 => {
                if let Some(link) = self.network.to(node, lane) {
                    self.trace(|| format!("the connection to {node} breaks"));
                    self.lose(link, "the connection broke");
                }
            }
            7 | 8 => self.move_coordinator(NodeId(node)),
            2 => {
                let stalls = self.below(2) == 0;
                let late = ms(300 + self.below(LATEST_MS));
                let now = self.now;
                let Some(link) = self.network.to(node, lane).and_then(|link| self.network.links.get_mut(&link)) else {
                    return;
                };
                if stalls {
                    link.there = link.there.max(now + late);
                    self.trace(|| format!("what is sent to {node} gets there {late:?} late"));
                } else {
                    link.dead = true;
                    self.trace(|| format!("nothing gets through to {node}"));
                }
            }
            3 | 4 => {
                let command = Command::MoveLeader { topic: TOPIC.to_owned(), partition, node: NodeId(node) };
                let moved = self.broker.command(self.now, command);
                self.trace(|| format!("{partition} moves to {node}: {moved}"));
                self.figures.moves += usize::from(moved);
            }
            5 if self.broker.alive.len() > 1 => {
                self.trace(|| format!("{node} stops"));
                self.broker.stop(self.now, node);
            }
            _ => {
                if !self.broker.alive.contains(&node) {
                    self.trace(|| format!("{node} starts"));
                    self.figures.restarts += 1;
                    self.broker.start(self.now, node);
                }
            }
        }
    }

    /// Ends the faults, and flushes.
    fn calm_down(&mut self) {
        self.calm = true;
        for node in 1..=i32::from(NODES) {
            self.broker.start(self.now, node);
        }
        if self.user.is_none() {
            self.figures.flushes += 1;
            self.machine.handle(self.now, Input::Flush { ticket: 0 });
        }
    }
}
