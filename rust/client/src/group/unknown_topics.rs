//! Subscribed topics that do not exist: the user is told, with the topic that may be meant. It is no error, since a
//! topic may be created later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use monedula_engine::group::GroupEvent;
use monedula_protocol::error_code::ErrorCode;

use super::task::{Event, Task};
use crate::net::metadata::View;
use crate::tasks::caught;
use crate::topic_name;

impl Task {
    /// Tells the user once of each subscribed topic that no answer has known for a while, and once when it exists.
    pub(super) fn report_unknown(&mut self, view: &View) {
        let (mut found, mut doubtful) = (Vec::new(), BTreeSet::new());
        for topic in &self.subscribed {
            let Some(known) = view.cluster.topics.get(topic) else { continue };
            let is_unknown = known.error == ErrorCode::UnknownTopicOrPartition;
            doubtful.extend(is_unknown.then(|| topic.clone()));
            if known.error == ErrorCode::None && !known.partitions.is_empty() {
                found.extend(self.unknown.take(topic));
            } else if is_unknown
                && known.unknown_for() >= self.parts.base.config.propagation
                && self.unknown.insert(topic.clone())
            {
                self.find_nearest(topic.clone());
            }
        }
        let mut figures = self.shared.figures();
        doubtful.retain(|topic| !figures.unknown_topics.contains(topic));
        figures.doubtful_topics = doubtful;
        drop(figures);
        for topic in found {
            // The user may not have been told yet that it did not exist.
            if self.shared.figures().unknown_topics.remove(&topic) {
                self.record(GroupEvent::TopicFound { topic });
            }
        }
    }

    /// Notes the time since which no topic matches the pattern: a loop that ends would wait for one for ever.
    pub(super) fn note_unmatched(&self, is_unmatched: bool) {
        let mut figures = self.shared.figures();
        figures.unmatched_since = is_unmatched.then(|| figures.unmatched_since.unwrap_or_else(Instant::now));
    }

    /// Looks for a topic with nearly this name, in a task that sends one [`Event::Unknown`].
    fn find_nearest(&self, topic: Arc<str>) {
        let (metadata, events) = (self.parts.base.metadata.clone(), self.events.clone());
        let timeout = self.parts.base.config.default_api_timeout;
        tokio::spawn(async move {
            let cluster = caught(metadata.describe(None, timeout)).await.ok().and_then(Result::ok);
            let names = cluster.iter().flat_map(|cluster| &cluster.topics);
            let names: BTreeSet<&str> =
                names.filter(|(_, topic)| !topic.is_internal).map(|(name, _)| &**name).collect();
            let nearest = topic_name::nearest(&topic, names).map(Arc::from);
            // The membership's task may have ended; the result is dropped then.
            let _ = events.send(Event::Unknown { topic, nearest });
        });
    }

    pub(super) fn tell_unknown(&mut self, topic: Arc<str>, nearest: Option<Arc<str>>) {
        // The subscription may have changed meanwhile, or the topic may have been created.
        if !self.unknown.contains(&topic) {
            return;
        }
        let mut figures = self.shared.figures();
        figures.doubtful_topics.remove(&topic);
        let is_new = figures.unknown_topics.insert(topic.clone());
        drop(figures);
        if is_new {
            self.record(GroupEvent::UnknownTopic { topic, nearest });
        }
    }

    pub(super) fn forget_unknown(&mut self) {
        self.unknown.clear();
        let mut figures = self.shared.figures();
        figures.unknown_topics.clear();
        figures.doubtful_topics.clear();
        figures.unmatched_since = None;
    }
}
