//! Effects of changed topics and leaders on waiting fetches and on the coordinators.

use super::Core;
use crate::cluster::{Coordinated, Topic};
use crate::groups::Groups;
use crate::transactions::Transactions;

impl Core {
    /// Deletes a topic with its logs and the offsets that groups have committed for it.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Option<Topic> {
        let topic = self.topics.remove(name)?;
        for partition in 0..topic.partitions.len() as i32 {
            self.leader_changed(name, partition);
        }
        Groups::topic_deleted(self, name);
        self.metadata_changed();
        Some(topic)
    }

    /// Must be called after topics or partitions are created, deleted or reassigned: waiting fetches are checked again,
    /// and consumer groups check their subscriptions.
    pub(crate) fn metadata_changed(&mut self) {
        self.parked.all_changed();
        self.groups.metadata_changed();
    }

    /// Must be called after a partition has a new leader, the same leader in a new epoch, or was deleted: fetches that
    /// wait for it are checked again, and the coordinator of an internal partition changes.
    pub(crate) fn leader_changed(&mut self, topic: &str, partition: i32) {
        self.new_epoch(topic, partition);
        match Coordinated::of_topic(topic) {
            Some(Coordinated::Groups) => Groups::leader_changed(self, partition),
            Some(Coordinated::Transactions) => Transactions::leader_changed(self, partition),
            None => {}
        }
    }
}
