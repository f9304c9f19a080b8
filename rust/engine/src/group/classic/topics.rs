//! What metadata says of topics: partitions that are added, and topics that are deleted and made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::member::Member;
use crate::TopicPartition;
use crate::group::{CallbackKind, GroupEvent, Output, TopicInfo};

impl Member {
    pub(super) fn learn_topics(&mut self, topics: BTreeMap<Arc<str>, TopicInfo>) {
        for topic in &self.topics {
            // A topic that is not there yet counts as new as a whole once it is; one that is there when it is subscribed to, as old.
            let info = topics.get(topic).copied();
            self.first_seen.see(topic, info, info.map_or(0, |info| info.partitions));
        }
        let replaced = self.learn_ids(&topics);
        self.counts = topics.into_iter().map(|(topic, info)| (topic, info.partitions)).collect();
        self.rejoin_for_counts();
        self.lose_replaced(replaced);
    }

    /// What is owned of topics that have other ids now than those it was gained with.
    fn learn_ids(&mut self, topics: &BTreeMap<Arc<str>, TopicInfo>) -> BTreeSet<TopicPartition> {
        let mut replaced = BTreeSet::new();
        for (partition, id) in &mut self.owned {
            let Some(current) = topics.get(&partition.topic).map(|info| info.id).filter(|id| !id.is_zero()) else {
                continue;
            };
            if id.is_zero() {
                // The leader knew the topic first: this is the one that is read.
                *id = current;
            } else if *id != current {
                replaced.insert(partition.clone());
            }
        }
        replaced
    }

    /// The leader has the group assign anew where topics have other partitions than it assigned.
    fn rejoin_for_counts(&mut self) {
        let Some(assigned) = self.assigned_counts.as_ref().filter(|_| self.leader && self.generation >= 0) else {
            return;
        };
        if *assigned != self.counts {
            let topics = self.counts.keys().chain(assigned.keys());
            let changed: BTreeSet<&Arc<str>> =
                topics.filter(|topic| assigned.get(*topic) != self.counts.get(*topic)).collect();
            let names: Vec<&str> = changed.iter().map(|topic| &***topic).collect();
            let reason = format!("the partitions of {} changed", names.join(", "));
            // Once: the next assignment brings new counts.
            self.assigned_counts = None;
            self.want_rejoin(reason);
        }
    }

    /// The topics of these were deleted and made anew under their names. Assignments speak of names, so this one is as good as
    /// before; but what was read and finished are offsets of topics that are no more, which must not be committed to the new
    /// ones. So they are lost, and gained anew with the next assignment.
    fn lose_replaced(&mut self, lost: BTreeSet<TopicPartition>) {
        if lost.is_empty() {
            return;
        }
        let (told, ended) = self.revocation.as_mut().map(|revocation| revocation.leave_out(&lost)).unwrap_or_default();
        self.release(&lost);
        let reason = "the topic was deleted and made anew";
        self.out.event(GroupEvent::Lost { partitions: lost.clone(), reason: reason.into() });
        self.out.push(Output::Released { partitions: lost.clone() });
        let untold: BTreeSet<TopicPartition> = lost.difference(&told).cloned().collect();
        if !untold.is_empty() {
            self.out.call_back(CallbackKind::Lost, untold);
        }
        if ended {
            self.end_revocation();
        }
        self.want_rejoin(reason.into());
    }

    /// None of these is owned any more.
    pub(super) fn release(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.owned.retain(|partition, _| !partitions.contains(partition));
        self.offset_fetch.release(partitions);
    }
}
