//! What users get.

use monedula_engine::TopicPartition;

use super::{Checks, Pid, Rule, View};
use crate::machine::State;
use crate::sometimes::Situation;

impl Checks {
    pub(crate) fn sought(&mut self, pid: Pid, partition: &TopicPartition, from: i64, to: i64) {
        self.cover(partition, from, to);
        self.excused.insert(partition.clone());
        if let Some(owned) = self.view(pid).owned.get_mut(partition) {
            owned.next = Some(to);
        }
    }

    pub(crate) fn delivered(&mut self, pid: Pid, partition: &TopicPartition, from: i64, to: i64) {
        let now = self.now;
        let Some(view) = self.views.get_mut(&pid) else { return };
        if view.lease.is_some_and(|until| now >= until) {
            let text = format!("p{pid}: {partition} from {from}, {:?} past the lease", now - view.lease.unwrap());
            return self.fail(Rule::LeasedDelivery, text);
        }
        let Some(owned) = view.owned.get_mut(partition) else {
            return self.fail(Rule::OwnedDelivery, format!("p{pid}: {partition} from {from}, not owned"));
        };
        if owned.settling || !owned.announced || owned.gone {
            let text = format!("p{pid}: {partition} from {from}, {owned:?}");
            return self.fail(Rule::OwnedDelivery, text);
        }
        let (next, starts, unaccounted) = (owned.next.replace(to), owned.starts, owned.unaccounted);
        if view.state.is_some_and(State::is_rebalancing) {
            self.met.met(Situation::FlowedDuringRebalance);
        }
        match next {
            Some(next) if next != from => {
                return self.fail(Rule::Gap, format!("p{pid}: {partition} from {from} to {to}, but {next} is next"));
            }
            Some(_) => {}
            None => self.first(pid, partition, from, starts),
        }
        let fenced = |of: &Pid, view: &View| self.is_fenced(*of, view);
        if fenced(&pid, &self.views[&pid]) || self.views[&pid].blind || unaccounted {
            return;
        }
        let others = self.views.iter().filter(|(other, view)| **other != pid && !fenced(other, view) && !view.blind);
        let overlap = others
            .filter(|(_, view)| {
                view.owned.get(partition).is_some_and(|owned| !owned.gone && !owned.unaccounted)
                    && view.lease.is_some_and(|until| now < until)
            })
            .map(|(other, view)| format!("p{pid} hands out {partition}; p{other} owns it until {:?}", view.lease))
            .next();
        if let Some(text) = overlap {
            self.fail(Rule::Overlap, text);
        }
    }

    fn first(&mut self, pid: Pid, partition: &TopicPartition, from: i64, starts: Option<i64>) {
        let committed = self.committed.get(partition).copied();
        let view = &self.views[&pid];
        let zombie = view.blind || self.is_fenced(pid, view);
        let expected = if zombie { starts } else { committed.or(starts) };
        if starts != Some(from) || (expected != Some(from) && !self.excused.contains(partition)) {
            let text = format!("p{pid}: {partition} starts at {from}; {committed:?} is committed, told was {starts:?}");
            self.fail(Rule::Start, text);
        }
    }

    /// Where a partition starts, as it was told.
    pub(crate) fn starts(&self, pid: Pid, partition: &TopicPartition) -> Option<i64> {
        self.views.get(&pid)?.owned.get(partition)?.starts
    }

    /// What a user who waits would have to get.
    pub(crate) fn available(&self, pid: Pid) -> Option<TopicPartition> {
        let view = self.views.get(&pid)?;
        if view.lease.is_some_and(|until| self.now >= until) {
            return None;
        }
        let there = view.owned.iter().find(|(partition, owned)| {
            let at = owned.next.or(owned.starts);
            owned.announced && !owned.settling && !owned.gone && at.is_some_and(|at| at < self.end(partition))
        });
        there.map(|(partition, _)| partition.clone())
    }
}
