//! Topic names and ids. The coordinator uses ids, the user names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::member::ConsumerMember;
use crate::group::messages::{Output, Partitions, Subscription, TopicInfo};
use crate::group::offsets::FirstSeen;
use crate::group::outbox::Timer;
use crate::{Now, TopicPartition};

/// The ids and names of subscribed, owned and assigned topics.
#[derive(Clone, Debug, Default)]
pub(super) struct TopicNames {
    pub(super) names: BTreeMap<Uuid, Arc<str>>,
    /// The current ids of topics by name: a recreated topic has another id than before.
    pub(super) ids: BTreeMap<Arc<str>, Uuid>,
    pub(super) resolve_attempts: u32,
    pub(super) first_seen: FirstSeen,
    /// The number of partitions of each topic of the cluster when the user subscribed to a pattern that the broker
    /// evaluates.
    pub(super) listed: Option<BTreeMap<Arc<str>, usize>>,
}

impl ConsumerMember {
    pub(super) fn learn_subscription(&mut self, subscription: &Subscription) {
        let before = match &self.subscription {
            Some(Subscription::Topics(topics) | Subscription::Matched(topics)) => Some(topics),
            _ => None,
        };
        match subscription {
            // A pattern matches a new topic. It did not exist before, so it is read from its start (req S084).
            Subscription::Matched(topics) => {
                if let Some(before) = before {
                    for topic in topics.difference(before) {
                        self.topics.first_seen.expect(topic);
                    }
                }
                self.topics.first_seen.keep(topics);
            }
            Subscription::Topics(topics) => self.topics.first_seen.keep(topics),
            Subscription::Regex(_) => {}
        }
    }

    pub(super) fn learn_topics(&mut self, topics: BTreeMap<Arc<str>, TopicInfo>) {
        match &self.subscription {
            // A topic that does not exist yet is new as a whole once it does; one that exists when it is subscribed to
            // is old.
            Some(Subscription::Topics(names) | Subscription::Matched(names)) => {
                for name in names {
                    let info = topics.get(name).copied();
                    self.topics.first_seen.see(name, info, info.map_or(0, |info| info.partitions));
                }
            }
            // Topics that did not exist when the user subscribed to the pattern are new. If that is not known, only
            // partitions that are added later are new.
            Some(Subscription::Regex(_)) => {
                for (name, info) in &topics {
                    let there = self.topics.listed.as_ref().map(|listed| listed.get(name).copied().unwrap_or(0));
                    self.topics.first_seen.see(name, Some(*info), there.unwrap_or(info.partitions));
                }
            }
            None => {}
        }
        // A topic that metadata leaves out may be deleted, or just not known to the broker that answered: topics of
        // owned or assigned partitions keep their names.
        let mut kept: BTreeSet<Uuid> = self.base.owned.values().copied().collect();
        kept.extend(self.reconciliation.target.iter().flatten().map(|(id, _)| *id));
        self.topics.names.retain(|id, _| kept.contains(id));
        self.topics
            .names
            .extend(topics.iter().filter(|(_, info)| !info.id.is_zero()).map(|(name, info)| (info.id, name.clone())));
        self.topics.ids = topics.into_iter().map(|(name, info)| (name, info.id)).collect();
    }

    /// The topics of the target whose names are not known.
    pub(super) fn unresolved(&self) -> BTreeSet<Uuid> {
        let ids = self.reconciliation.target.iter().flatten().map(|(id, _)| *id);
        ids.filter(|id| !self.topics.names.contains_key(id)).collect()
    }

    /// Asks for missing topic names, repeatedly, with a growing backoff.
    pub(super) fn advance_resolve_topic_ids(&mut self, now: Now) {
        let ids = if self.in_group() && self.base.leave.exit.is_none() { self.unresolved() } else { BTreeSet::new() };
        if ids.is_empty() {
            self.base.out.timers.clear(Timer::ResolveTopicIds);
            self.topics.resolve_attempts = 0;
            return;
        }
        if self.base.out.timers.waits(Timer::ResolveTopicIds, now) {
            return;
        }
        self.base.out.back_off(Timer::ResolveTopicIds, &mut self.topics.resolve_attempts, now);
        self.base.out.push(Output::ResolveTopicIds { ids });
    }

    /// The given partitions by topic name, without those whose topic name is not known.
    pub(super) fn resolved(&self, partitions: &Partitions) -> BTreeMap<TopicPartition, Uuid> {
        let mut named: BTreeMap<TopicPartition, Uuid> = BTreeMap::new();
        for &(id, partition) in partitions {
            let Some(name) = self.topics.names.get(&id) else { continue };
            // If two ids have the same name, the current topic's id counts.
            if !self.is_replaced(name, id) {
                named.insert(TopicPartition::new(name.clone(), partition), id);
            } else {
                named.entry(TopicPartition::new(name.clone(), partition)).or_insert(id);
            }
        }
        named
    }

    /// Tells whether the topic with this id was deleted and recreated under the same name.
    pub(super) fn is_replaced(&self, topic: &Arc<str>, id: Uuid) -> bool {
        self.topics.ids.get(topic).is_some_and(|current| *current != id)
    }

    /// Tells whether the user subscribes to the topic. For a pattern that the broker evaluates, only the broker knows,
    /// so this is `true`.
    pub(super) fn is_wanted(&self, topic: &Arc<str>) -> bool {
        match &self.subscription {
            Some(Subscription::Topics(topics) | Subscription::Matched(topics)) => topics.contains(topic),
            Some(Subscription::Regex(_)) => true,
            None => false,
        }
    }
}
