//! Subscribed topics that do not exist: the user is told, with the topic that may be meant. It is no error, since a
//! topic may be created later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_engine::group::GroupEvent;
use monedula_protocol::error_code::ErrorCode;

use super::task::{Event, Task};
use crate::base::ClientBase;
use crate::net::metadata::View;
use crate::tasks::caught;
use crate::topic_name;

/// What a view of the cluster says of subscribed topics.
#[derive(Default)]
pub(crate) struct TopicsKnown {
    /// Those that exist, and of which `unknown` said that they did not.
    pub(crate) found: Vec<Arc<str>>,
    /// Those that no answer has known for a while, and that were not in `unknown` before.
    pub(crate) unknown: Vec<Arc<str>>,
    /// Those that the last answer did not know.
    doubtful: BTreeSet<Arc<str>>,
}

impl TopicsKnown {
    /// Looks for subscribed topics that do not exist, and keeps them in `unknown` as long as that is so.
    pub(crate) fn of(
        view: &View,
        subscribed: &BTreeSet<Arc<str>>,
        propagation: Duration,
        unknown: &mut BTreeSet<Arc<str>>,
    ) -> Self {
        let mut known = Self::default();
        for name in subscribed {
            let Some(topic) = view.cluster.topics.get(name) else { continue };
            let is_unknown = topic.error == ErrorCode::UnknownTopicOrPartition;
            known.doubtful.extend(is_unknown.then(|| name.clone()));
            if topic.error == ErrorCode::None && !topic.partitions.is_empty() {
                known.found.extend(unknown.take(name));
            } else if is_unknown && topic.unknown_for() >= propagation && unknown.insert(name.clone()) {
                known.unknown.push(name.clone());
            }
        }
        known
    }
}

/// The topic with nearly this name, which may be meant.
pub(crate) async fn nearest_topic(base: ClientBase, topic: Arc<str>) -> Option<Arc<str>> {
    let cluster = caught(base.metadata.describe(None, base.config.default_api_timeout)).await.ok()?.ok()?;
    let names = cluster.topics.iter().filter(|(_, topic)| !topic.is_internal).map(|(name, _)| &**name);
    topic_name::nearest(&topic, names.collect::<Vec<_>>()).map(Arc::from)
}

impl Task {
    /// Tells the user once of each subscribed topic that no answer has known for a while, and once when it exists.
    pub(super) fn report_unknown(&mut self, view: &View) {
        let propagation = self.parts.base.config.propagation;
        let TopicsKnown { found, unknown, mut doubtful } =
            TopicsKnown::of(view, &self.subscribed, propagation, &mut self.unknown);
        unknown.into_iter().for_each(|topic| self.find_nearest(topic));
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
        let (base, events) = (self.parts.base.clone(), self.events.clone());
        tokio::spawn(async move {
            let nearest = nearest_topic(base, topic.clone()).await;
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
