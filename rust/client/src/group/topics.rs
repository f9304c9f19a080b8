//! Topics by their ids, as the protocol of KIP-848 names them.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::ResetPolicy;
use monedula_engine::group::{self, Input};
use monedula_protocol::types::Uuid;

use super::subscription::Subscription;
use super::task::{Event, Task};
use crate::error::ClientError;
use crate::log::Level;
use crate::net::metadata::View;
use crate::tasks::caught;

impl Task {
    /// Gives the coordinator a pattern to match. Where it matters which topics come later, those that there are are listed first:
    /// what is assigned does not tell.
    pub(super) fn give_pattern(&mut self, pattern: String) {
        if self.parts.config.reset == ResetPolicy::Earliest {
            return self.subscribe_to_pattern(pattern);
        }
        let (metadata, events) = (self.parts.metadata.clone(), self.events.clone());
        let timeout = self.parts.config.default_api_timeout;
        tokio::spawn(async move {
            let cluster = caught(metadata.describe(None, timeout)).await.unwrap_or_else(lost).map(Box::new);
            // The task may be gone; then nobody wants to know.
            let _ = events.send(Event::Listed { pattern, cluster });
        });
    }

    pub(super) fn listed(&mut self, pattern: String, cluster: Result<Box<Cluster>, ClientError>) {
        if !matches!(&self.subscription, Some(Subscription::ServerPattern(given)) if *given == pattern) {
            return;
        }
        match cluster {
            Ok(cluster) => {
                let sizes = cluster.topics.iter().map(|(name, topic)| (name.clone(), topic.partitions.len()));
                self.handle(Input::Listed { counts: sizes.collect() });
            }
            Err(error) => self.parts.log.record(Level::Warning, "groups", || {
                format!("topics that come under the pattern {pattern:?} start where auto.offset.reset says: {error}")
            }),
        }
        self.subscribe_to_pattern(pattern);
    }

    fn subscribe_to_pattern(&mut self, pattern: String) {
        let what = group::Subscription::Regex(pattern);
        self.handle(Input::Subscribe(what));
    }

    /// Asks what the topics with these ids are called, unless that is being asked already: the machine asks again.
    pub(super) fn resolve(&mut self, ids: BTreeSet<Uuid>) {
        // Topics that are subscribed to by name are known with their ids by the next view.
        self.parts.metadata.want();
        if std::mem::replace(&mut self.resolving, true) {
            return;
        }
        let (metadata, events) = (self.parts.metadata.clone(), self.events.clone());
        let timeout = self.parts.config.default_api_timeout;
        tokio::spawn(async move {
            let cluster = caught(metadata.describe_ids(ids, timeout)).await.unwrap_or_else(lost);
            // The task may be gone; then nobody wants to know.
            let _ = events.send(Event::Named(cluster.map(Box::new)));
        });
    }

    /// Names of topics have come: they are held, so that views have them from now on.
    pub(super) fn named(&mut self, cluster: Result<Box<Cluster>, ClientError>) {
        self.resolving = false;
        let cluster = match cluster {
            // For a subscription that is no more.
            Ok(_) if self.subscription.is_none() => return,
            Ok(cluster) => cluster,
            Err(error) => {
                let what = || format!("topics that are assigned have no names yet: {error}");
                return self.parts.log.record(Level::Warning, "groups", what);
            }
        };
        let fresh: Vec<Arc<str>> =
            cluster.topics.keys().filter(|name| self.resolved.insert((*name).clone())).cloned().collect();
        self.parts.metadata.hold(fresh);
        self.parts.metadata.learn(&cluster);
        let view = self.parts.metadata.view();
        self.give_topic_ids(&view);
    }

    /// Tells the machine of the topics subscribed to, owned, and asked for by id, if anything about them is news.
    pub(super) fn give_topic_ids(&mut self, view: &View) {
        // One that was asked for by its id may be gone since.
        let resolved = self.resolved.iter().filter(|name| view.cluster.topics.contains_key(*name));
        let names = self.subscribed.iter().chain(resolved);
        let Some(topics) = super::subscription::topic_infos(&view.cluster, names) else { return };
        if self.known.as_ref() != Some(&topics) {
            self.known = Some(topics.clone());
            self.handle(Input::Topics { topics });
        }
    }

    /// Ends the interest in topics that were asked for by their ids.
    pub(super) fn release_resolved(&mut self) {
        self.parts.metadata.release(std::mem::take(&mut self.resolved));
    }
}

fn lost<T>(reason: String) -> Result<T, ClientError> {
    Err(ClientError::Internal(format!("a lookup of topics ended: {reason}")))
}
