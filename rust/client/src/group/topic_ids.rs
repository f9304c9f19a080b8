//! Resolving topic ids, by which KIP-848 identifies topics.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::cluster::Cluster;
use monedula_engine::group::{GroupProtocol, Input};
use monedula_protocol::types::Uuid;

use super::task::{Event, Task};
use crate::error::ClientError;
use crate::log::kinds;
use crate::net::metadata::View;
use crate::tasks::caught;

impl Task {
    /// Looks up the names of these topic ids in Metadata. Does nothing while a lookup is in flight:
    /// the member repeats the request.
    pub(super) fn resolve(&mut self, ids: BTreeSet<Uuid>) {
        // The next metadata update has the ids of topics that are subscribed to by name.
        self.parts.base.metadata.want();
        if std::mem::replace(&mut self.resolving, true) {
            return;
        }
        let (metadata, events) = (self.parts.base.metadata.clone(), self.events.clone());
        let timeout = self.parts.base.config.default_api_timeout;
        tokio::spawn(async move {
            let cluster = caught(metadata.describe_ids(ids, timeout)).await.unwrap_or_else(lost);
            // The membership's task may have ended; the result is dropped then.
            let _ = events.send(Event::Named(cluster.map(Box::new)));
        });
    }

    /// Names of topic ids have arrived: the topics are held, so that further metadata updates contain them.
    pub(super) fn named(&mut self, cluster: Result<Box<Cluster>, ClientError>) {
        self.resolving = false;
        let cluster = match cluster {
            // The lookup was for a subscription that has ended, or for a member that fell back to the classic protocol
            // since: this one would take topics that it leads and that are not among these for gone.
            Ok(_) if self.subscription.is_none() || self.state.protocol() == GroupProtocol::Classic => return,
            Ok(cluster) => cluster,
            Err(error) => {
                let what = || format!("topics that are assigned have no names yet: {error}");
                return self.parts.base.log.record(&kinds::TOPIC_LOOKUP_FAILED, what);
            }
        };
        let fresh: Vec<Arc<str>> =
            cluster.topics.keys().filter(|name| self.resolved.insert((*name).clone())).cloned().collect();
        self.parts.base.metadata.hold(fresh);
        self.parts.base.metadata.learn(&cluster);
        let view = self.parts.base.metadata.view();
        self.give_topic_ids(&view);
    }

    /// Gives the member the ids and partition counts of subscribed and resolved topics, if they changed.
    pub(super) fn give_topic_ids(&mut self, view: &View) {
        // A topic that was resolved by its id may have been deleted since.
        let resolved = self.resolved.iter().filter(|name| view.cluster.topics.contains_key(*name));
        let names = self.subscribed.iter().chain(resolved);
        let Some(topics) =
            super::subscription::topic_infos((&view.cluster, self.parts.base.config.propagation), false, names)
        else {
            return;
        };
        if self.known.as_ref() != Some(&topics) {
            self.known = Some(topics.clone());
            self.handle(Input::Topics { topics });
        }
    }

    pub(super) fn release_resolved(&mut self) {
        self.parts.base.metadata.release(std::mem::take(&mut self.resolved));
    }
}

/// The failure of a lookup of topics whose task panicked.
pub(super) fn lost<T>(reason: String) -> Result<T, ClientError> {
    Err(ClientError::Internal(format!("a lookup of topics ended: {reason}")))
}
