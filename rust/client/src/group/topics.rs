//! Topics by their ids, as the protocol of KIP-848 names them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_engine::cluster::Cluster;
use monedula_engine::membership::{self, TopicInfo};
use monedula_protocol::types::Uuid;

use super::machine::Input;
use super::task::{Event, Task};
use crate::log::Level;
use crate::metadata::View;

impl Task {
    /// Asks what the topics with these ids are called; [`Event::Named`] comes of it, if anything does. The machine asks again.
    pub(super) fn resolve(&self, ids: BTreeSet<Uuid>) {
        // Topics that are subscribed to by name are known with their ids by the next view.
        self.parts.metadata.want();
        let (metadata, log, events) = (self.parts.metadata.clone(), self.parts.log.clone(), self.events.clone());
        let timeout = self.parts.config.default_api_timeout;
        tokio::spawn(async move {
            match metadata.describe_ids(ids, timeout).await {
                // The task may be gone; then nobody wants to know.
                Ok(cluster) => _ = events.send(Event::Named(Box::new(cluster))),
                Err(error) => log.record(Level::Warning, "groups", || format!("topics have no names: {error}")),
            }
        });
    }

    /// Names of topics have come: they are held, so that views have them from now on.
    pub(super) fn named(&mut self, cluster: &Cluster) {
        // An answer for a subscription that is no more.
        if self.subscription.is_none() {
            return;
        }
        let fresh: Vec<Arc<str>> =
            cluster.topics.keys().filter(|name| self.resolved.insert((*name).clone())).cloned().collect();
        self.parts.metadata.hold(fresh);
        // A view comes of it, and of that what the machine is told.
        self.parts.metadata.learn(cluster);
        let view = self.parts.metadata.view();
        self.tell_ids(&view);
    }

    /// Tells the machine of the topics subscribed to, owned, and asked for by id, if anything about them is news.
    pub(super) fn tell_ids(&mut self, view: &View) {
        let names = self.subscribed.union(&self.resolved);
        let Some(counts) = super::subscription::counts(&view.cluster, names) else { return };
        let info = |(name, partitions): (Arc<str>, usize)| {
            let id = view.cluster.topics.get(&name).map_or(Uuid::ZERO, |topic| topic.id);
            (name, TopicInfo { id, partitions })
        };
        let topics: BTreeMap<Arc<str>, TopicInfo> = counts.into_iter().map(info).collect();
        if self.known.as_ref() != Some(&topics) {
            self.known = Some(topics.clone());
            self.handle(Input::Consumer(membership::Input::Topics { topics }));
        }
    }

    /// Ends the interest in topics that were asked for by their ids.
    pub(super) fn release_resolved(&mut self) {
        self.parts.metadata.release(std::mem::take(&mut self.resolved));
    }
}
