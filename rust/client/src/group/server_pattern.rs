//! Subscribing to a pattern that the broker matches (KIP-848).

use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::ResetPolicy;
use monedula_engine::group::{Input, Subscription};

use super::subscription::CompiledSubscription;
use super::task::{Event, Task};
use super::topic_ids::lost;
use crate::error::ClientError;
use crate::log::kinds;
use crate::tasks::caught;

impl Task {
    /// Subscribes to a pattern that the broker matches. Unless `auto.offset.reset=earliest`, all existing topics are
    /// listed first: topics created later start at their beginning, and the assignment does not say which ones are new.
    pub(super) fn give_pattern(&mut self, pattern: String) {
        if self.parts.base.config.reset == ResetPolicy::Earliest {
            return self.subscribe_to_pattern(pattern);
        }
        let (metadata, events) = (self.parts.base.metadata.clone(), self.events.clone());
        let timeout = self.parts.base.config.default_api_timeout;
        tokio::spawn(async move {
            let cluster = caught(metadata.describe(None, timeout)).await.unwrap_or_else(lost).map(Box::new);
            // The membership's task may have ended; the result is dropped then.
            let _ = events.send(Event::Listed { pattern, cluster });
        });
    }

    pub(super) fn listed(&mut self, pattern: String, cluster: Result<Box<Cluster>, ClientError>) {
        if !matches!(&self.subscription, Some(CompiledSubscription::ServerPattern(given)) if *given == pattern) {
            return;
        }
        match cluster {
            Ok(cluster) => {
                let sizes = cluster.topics.iter().map(|(name, topic)| (name.clone(), topic.partitions.len()));
                self.handle(Input::Listed { counts: sizes.collect() });
            }
            Err(error) => self.parts.base.log.record(&kinds::TOPIC_LOOKUP_FAILED, || {
                format!("topics that come under the pattern {pattern:?} start where auto.offset.reset says: {error}")
            }),
        }
        self.subscribe_to_pattern(pattern);
    }

    fn subscribe_to_pattern(&mut self, pattern: String) {
        self.handle(Input::Subscribe(Subscription::Regex(pattern)));
    }
}
