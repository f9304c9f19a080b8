//! What users get.

use monedula_engine::TopicPartition;

use super::{Checks, Owned, Pid, ReadingId, Rule, Stray};
use crate::excuses::Excuse;
use crate::machine::is_rebalancing;
use crate::sometimes::Situation;

impl Checks {
    /// A user's seek to `to` begins a reading; what is before that is jumped over.
    pub(crate) fn sought(&mut self, pid: Pid, partition: &TopicPartition, from: i64, to: i64, reading_id: ReadingId) {
        self.cover(partition, from, to);
        self.sought.entry((pid, partition.clone())).or_default().insert(reading_id);
        self.excused.insert((Excuse::BackAfterSeek, None, Some(partition.clone())));
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
        let next = owned.next.replace(to);
        if view.state.is_some_and(is_rebalancing) {
            self.met.met(Situation::FlowedDuringRebalance);
        }
        match next {
            Some(next) if next != from => {
                return self.fail(Rule::Gap, format!("p{pid}: {partition} from {from} to {to}, but {next} is next"));
            }
            Some(_) => {}
            None => self.first(pid, partition, from),
        }
        let others = self.views.iter().filter(|(other, view)| {
            **other != pid
                && view.owned.get(partition).is_some_and(|owned| !owned.gone)
                && view.lease.is_some_and(|until| now < until)
        });
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            let Some(excuse) = self.mistaken(pid, partition).or_else(|| self.mistaken(other, partition)) else {
                let until = self.views[&other].lease;
                let text = format!("p{pid} hands out {partition}; p{other} owns it until {until:?}");
                return self.fail(Rule::Overlap, text);
            };
            self.excuse(excuse);
        }
    }

    fn first(&mut self, pid: Pid, partition: &TopicPartition, from: i64) {
        let committed = self.committed.get(partition).copied();
        let Owned { starts, looked_up, gone, .. } = self.views[&pid].owned[partition];
        let found = looked_up.flatten();
        if starts != Some(from) || found.is_some_and(|found| !gone && found != from) {
            let text = format!("p{pid}: {partition} starts at {from}; told was {starts:?}, and {looked_up:?} found");
            return self.fail(Rule::Start, text);
        }
        if committed.is_none_or(|committed| committed == from) {
            return;
        }
        let before = |strays: &Vec<Stray>| strays.iter().any(|stray| stray.replaced == found);
        if let Some(excuse) = self.mistaken(pid, partition) {
            self.excuse(excuse);
        } else if self.strays.get(partition).is_some_and(before) {
            self.excuse(Excuse::StartBeforeStray);
        } else {
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
