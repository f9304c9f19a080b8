//! Names and ids of topics. The coordinator speaks of ids, the user of names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::member::Member;
use crate::group::{Output, Partitions, Subscription, Timer, TopicInfo};
use crate::{Now, TopicPartition};

impl Member {
    pub(super) fn learn_subscription(&mut self, subscription: &Subscription) {
        let before = match &self.subscription {
            Some(Subscription::Topics(topics) | Subscription::Matched(topics)) => Some(topics),
            _ => None,
        };
        match subscription {
            // A pattern matches a new topic: it was not there before, so none of its records is to be missed (seed S084).
            Subscription::Matched(topics) => {
                if let Some(before) = before {
                    for topic in topics.difference(before) {
                        self.first_seen.expect(topic);
                    }
                }
                self.first_seen.keep(topics);
            }
            Subscription::Topics(topics) => self.first_seen.keep(topics),
            Subscription::Regex(_) => {}
        }
    }

    pub(super) fn learn_topics(&mut self, topics: BTreeMap<Arc<str>, TopicInfo>) {
        match &self.subscription {
            // A topic that is not there yet counts as new as a whole once it is; one that is there when it is subscribed to, as
            // old.
            Some(Subscription::Topics(names) | Subscription::Matched(names)) => {
                for name in names {
                    let info = topics.get(name).copied();
                    self.first_seen.see(name, info, info.map_or(0, |info| info.partitions));
                }
            }
            // What was not there when the pattern was given is new. Where that is not known, only partitions that are added later.
            Some(Subscription::Regex(_)) => {
                for (name, info) in &topics {
                    let there = self.listed.as_ref().map(|listed| listed.get(name).copied().unwrap_or(0));
                    self.first_seen.see(name, Some(*info), there.unwrap_or(info.partitions));
                }
            }
            None => {}
        }
        // A topic that metadata leaves out may be gone, or only not be known to the broker that was asked: what is owned or
        // assigned of it keeps its name.
        let mut kept: BTreeSet<Uuid> = self.owned.values().copied().collect();
        kept.extend(self.target.iter().flatten().map(|(id, _)| *id));
        self.names.retain(|id, _| kept.contains(id));
        self.names
            .extend(topics.iter().filter(|(_, info)| !info.id.is_zero()).map(|(name, info)| (info.id, name.clone())));
        self.ids = topics.into_iter().map(|(name, info)| (name, info.id)).collect();
    }

    /// Topics of the target whose names are not known.
    pub(super) fn unresolved(&self) -> BTreeSet<Uuid> {
        let ids = self.target.iter().flatten().map(|(id, _)| *id);
        ids.filter(|id| !self.names.contains_key(id)).collect()
    }

    /// Asks for the names that are missing, again and again, each time after a longer while.
    pub(super) fn advance_resolve_topic_ids(&mut self, now: Now) {
        let ids = if self.in_group() && self.exit.is_none() { self.unresolved() } else { BTreeSet::new() };
        if ids.is_empty() {
            self.out.timers.clear(Timer::ResolveTopicIds);
            self.resolve_attempts = 0;
            return;
        }
        if self.out.timers.waits(Timer::ResolveTopicIds, now) {
            return;
        }
        let delay = self.out.delay(self.resolve_attempts);
        self.resolve_attempts = self.resolve_attempts.saturating_add(1);
        self.out.timers.set(Timer::ResolveTopicIds, now + delay);
        self.out.push(Output::ResolveTopicIds { ids });
    }

    /// Partitions by name, as far as their topics have one.
    pub(super) fn resolved(&self, partitions: &Partitions) -> BTreeMap<TopicPartition, Uuid> {
        let mut named: BTreeMap<TopicPartition, Uuid> = BTreeMap::new();
        for &(id, partition) in partitions {
            let Some(name) = self.names.get(&id) else { continue };
            // Of two topics of one name the one that is there now is meant.
            if !self.is_replaced(name, id) {
                named.insert(TopicPartition::new(name.clone(), partition), id);
            } else {
                named.entry(TopicPartition::new(name.clone(), partition)).or_insert(id);
            }
        }
        named
    }

    /// Whether the topic was deleted and made anew under the same name.
    pub(super) fn is_replaced(&self, topic: &Arc<str>, id: Uuid) -> bool {
        self.ids.get(topic).is_some_and(|current| *current != id)
    }

    /// Whether the user wants records of the topic. Of what the broker matches only the broker knows.
    pub(super) fn is_wanted(&self, topic: &Arc<str>) -> bool {
        match &self.subscription {
            Some(Subscription::Topics(topics) | Subscription::Matched(topics)) => topics.contains(topic),
            Some(Subscription::Regex(_)) => true,
            None => false,
        }
    }
}
