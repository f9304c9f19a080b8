//! From faults to calm, and what has to come of it.

use std::time::Duration;

use monedula_engine::Now;

use crate::checks::Rule;
use crate::excuses::Excuse;
use crate::plan::CLOSE;
use crate::process::Process;
use crate::trace::say;
use crate::world::{Event, World};

impl World {
    pub(crate) fn calm_down(&mut self) {
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
        for index in 0..self.plan.topics.len() {
            self.push(now, Event::MakeTopic(index));
        }
        for slot in 0..self.plan.slots.len() {
            self.push(now + CLOSE + Duration::from_secs(1), Event::Start(slot));
            self.push(now, Event::Start(slot));
        }
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            self.push(now, Event::CommitAll(pid));
        }
        self.push(now + CLOSE + Duration::from_secs(2), Event::Look);
    }

    /// Whether something may be missing that only another rebalance brings.
    fn may_nudge(&self) -> bool {
        let oracle = &self.checks.oracle;
        let returned = |process: &Process| oracle.has_returned(process.member.status().generation);
        oracle.is_as_upgraded() || self.processes.values().any(returned)
    }

    pub(crate) fn look(&mut self) {
        if self.ending {
            return;
        }
        let subscribed = self.processes.values().flat_map(|process| process.subscription.iter().cloned()).collect();
        let missing = match self.processes.iter().find(|(_, process)| !process.is_settled()) {
            Some((pid, process)) => Some(format!("p{pid} is {:?}", process.member.status().state)),
            None => self.checks.missing(&subscribed).or_else(|| self.uneven()),
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
            Some(_) if self.now > self.nudge_at && self.may_nudge() => {
                // A static leader that came back does not know which partitions were deferred or added before; the next rebalance assigns them.
                self.nudge_at = self.give_up_at;
                self.checks.excuse(Excuse::Nudged);
                // Likewise, when a static member replaces another and thereby upgrades the group, Kafka's coordinator leaves partitions
                // unassigned that nobody owned, until something changes the group and makes a new target assignment.
                if self.checks.oracle.is_as_upgraded() {
                    self.checks.excuse(Excuse::GrownForTarget);
                    (0..self.plan.topics.len()).for_each(|index| self.grow(index));
                }
                for pid in self.processes.keys().copied().collect::<Vec<_>>() {
                    self.nudge(pid);
                }
                self.push(self.now, Event::Look);
            }
            Some(_) => self.push(self.now + Duration::from_millis(500), Event::Look),
        }
    }
}
