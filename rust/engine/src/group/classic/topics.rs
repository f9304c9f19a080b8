//! Changes of topics that metadata shows: added partitions, and topics that were deleted and recreated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::member::ClassicMember;
use crate::group::base::Committing;
use crate::group::messages::{Output, TopicIds, TopicInfo};
use crate::group::offsets::FirstSeen;
use crate::group::outbox::Timer;
use crate::{Now, TopicPartition};

/// The subscribed topics and their partition counts.
#[derive(Clone, Debug, Default)]
pub(super) struct SubscribedTopics {
    /// Set if there is a subscription; a pattern may match no topic yet.
    pub(super) subscribed: bool,
    pub(super) names: BTreeSet<Arc<str>>,
    /// The topics of the last JoinGroup.
    pub(super) joined: BTreeSet<Arc<str>>,
    /// The latest metadata of these topics, and of the group's topics if this member leads.
    pub(super) infos: BTreeMap<Arc<str>, TopicInfo>,
    /// The partition counts that the assignment computed by this member is based on.
    pub(super) assigned_counts: Option<BTreeMap<Arc<str>, usize>>,
    pub(super) first_seen: FirstSeen,
    /// The ids of the subscribed topics when SyncGroup was sent, if the coordinator assigns (KIP-848). It assigns
    /// topics by id, and the answer has only their names.
    pub(super) ids_at_sync: Option<TopicIds>,
    /// The number of requests for metadata of assigned partitions whose topics are not known.
    pub(super) refresh_attempts: u32,
}

impl SubscribedTopics {
    /// The partition counts in the latest metadata.
    pub(super) fn counts(&self) -> BTreeMap<Arc<str>, usize> {
        self.infos.iter().map(|(topic, info)| (topic.clone(), info.partitions)).collect()
    }

    /// The id of the topic that stands under this name; zero if it is not known.
    pub(super) fn id(&self, topic: &str) -> Uuid {
        let told = || self.infos.get(topic).map(|info| info.id).unwrap_or_default();
        Some(self.first_seen.id(topic)).filter(|id| !id.is_zero()).unwrap_or_else(told)
    }

    fn ids(&self) -> TopicIds {
        self.names.iter().map(|topic| (topic.clone(), self.id(topic))).collect()
    }

    /// SyncGroup is sent. `is_led`: a leader assigns, by names.
    pub(super) fn asked_for_assignment(&mut self, is_led: bool) {
        self.ids_at_sync = (!is_led).then(|| self.ids());
    }

    /// Tells whether another topic stands under this name than when SyncGroup was sent. The assignment was of the one
    /// that was deleted, and the new one's partitions may have other owners.
    pub(super) fn is_recreated(&self, topic: &Arc<str>) -> bool {
        self.ids_at_sync.as_ref().is_some_and(|ids| ids.get(topic).copied().unwrap_or_default() != self.id(topic))
    }
}

impl ClassicMember {
    pub(super) fn learn_topics(&mut self, topics: BTreeMap<Arc<str>, TopicInfo>) {
        for topic in &self.topics.names {
            // A topic that does not exist yet is new as a whole once it does; one that exists when it is subscribed to
            // is old.
            let info = topics.get(topic).copied();
            self.topics.first_seen.see(topic, info, info.map_or(0, |info| info.partitions));
        }
        let replaced = self.learn_ids(&topics);
        self.topics.infos = topics;
        self.rejoin_for_counts();
        self.lose_replaced(replaced);
    }

    /// Tells whether the topic of an owned partition is known: by its id, or, if brokers send no ids, by its name
    /// alone. A member that has just started may be assigned partitions before its first metadata arrives.
    pub(super) fn is_topic_known(&self, partition: &TopicPartition) -> bool {
        self.base.owned.get(partition).is_some_and(|id| !id.is_zero())
            || self.topics.infos.contains_key(&partition.topic)
    }

    /// Asks for metadata, repeatedly, with a growing backoff, while an OffsetFetch waits for it: under a topic's name
    /// the coordinator may still have offsets of an earlier topic.
    pub(super) fn advance_refresh_metadata(&mut self, now: Now) {
        let mut waiting = self.base.offset_fetch.waiting().iter();
        if waiting.all(|partition| self.is_topic_known(partition)) {
            self.base.out.timers.clear(Timer::RefreshMetadata);
            self.topics.refresh_attempts = 0;
        } else if !self.base.out.timers.waits(Timer::RefreshMetadata, now) {
            self.base.out.back_off(Timer::RefreshMetadata, &mut self.topics.refresh_attempts, now);
            self.base.out.push(Output::RefreshMetadata);
        }
    }

    /// The owned partitions whose topics now have other ids than when they were assigned.
    fn learn_ids(&mut self, topics: &BTreeMap<Arc<str>, TopicInfo>) -> BTreeSet<TopicPartition> {
        let mut replaced = BTreeSet::new();
        for (partition, id) in &mut self.base.owned {
            let Some(current) = topics.get(&partition.topic).map(|info| info.id).filter(|id| !id.is_zero()) else {
                continue;
            };
            if id.is_zero() {
                // The partition was assigned before this member knew the topic: this id is the topic that it reads.
                *id = current;
            } else if *id != current {
                replaced.insert(partition.clone());
            }
        }
        replaced
    }

    /// As the leader, joins again if partition counts differ from those that the assignment is based on.
    pub(super) fn rejoin_for_counts(&mut self) {
        let Some(assigned) = self.topics.assigned_counts.as_ref().filter(|_| self.leader && self.generation >= 0)
        else {
            return;
        };
        let counts = self.topics.counts();
        if *assigned != counts {
            let topics = counts.keys().chain(assigned.keys());
            let changed: BTreeSet<&Arc<str>> =
                topics.filter(|topic| assigned.get(*topic) != counts.get(*topic)).collect();
            let names: Vec<&str> = changed.iter().map(|topic| &***topic).collect();
            let reason = format!("the partitions of {} changed", names.join(", "));
            // Only once: the next assignment sets new counts.
            self.topics.assigned_counts = None;
            self.want_rejoin(reason);
        }
    }

    /// Loses partitions whose topics were deleted and recreated under the same name. Assignments refer to names, so the
    /// partitions remain assigned; but finished offsets are those of the deleted topics and must not be committed for
    /// the new ones. So the partitions are lost, and assigned again in the next rebalance.
    fn lose_replaced(&mut self, lost: BTreeSet<TopicPartition>) {
        if lost.is_empty() {
            return;
        }
        let (notified, ended) =
            self.base.revocation.as_mut().map(|revocation| revocation.leave_out(&lost)).unwrap_or_default();
        self.base.release(&lost);
        let reason = "the topic was deleted and made anew";
        self.base.out.lose(lost, &notified, reason);
        if ended {
            self.end_revocation();
        }
        self.want_rejoin(reason.into());
    }
}
