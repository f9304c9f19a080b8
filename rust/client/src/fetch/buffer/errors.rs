//! Errors that calls of the user's raise: once each, or on every call while they last.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;

use crate::error::ClientError;

/// An error that lasts is raised again after this, or when the time of the call is over: a loop that goes on after it
/// must not spin.
const RAISED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Errors of partitions, of topics and of the whole client.
#[derive(Default)]
pub(crate) struct PendingErrors {
    raise: VecDeque<ClientError>,
    /// Errors of topics that have no partition here.
    failed_topics: Vec<ClientError>,
    /// An error of the whole client, raised on every call while it lasts.
    fatal: Option<ClientError>,
    lasting_raised_at: Option<Instant>,
}

impl PendingErrors {
    /// `error` is to be raised once.
    pub(super) fn push(&mut self, error: ClientError) {
        self.raise.push_back(error);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.raise.is_empty()
    }

    /// Errors of the partition will not be raised.
    pub(super) fn forget(&mut self, partition: &TopicPartition) {
        self.raise.retain(|error| error.partition() != Some(partition));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ClientError> {
        self.raise.iter()
    }

    pub(super) fn take(&mut self, index: usize) -> Option<ClientError> {
        self.raise.remove(index)
    }

    /// An error of the whole client: raised on every call that has nothing to hand out, until it is `None` again. False
    /// if there was and is none.
    pub(super) fn set_fatal(&mut self, error: Option<ClientError>) -> bool {
        if error.is_none() && self.fatal.is_none() {
            return false;
        }
        if error.as_ref().map(ToString::to_string) != self.fatal.as_ref().map(ToString::to_string) {
            self.lasting_raised_at = None;
        }
        self.fatal = error;
        true
    }

    /// An error of a topic none of whose partitions is known; lasts until some are, or the assignment changes.
    pub(super) fn topic_failed(&mut self, error: ClientError) {
        self.raise.push_back(error.clone());
        self.failed_topics.push(error);
        self.lasting_raised_at = None;
    }

    /// A topic has partitions: the error that it had none is over.
    pub(crate) fn topic_found(&mut self, topic: &str) {
        let is_other = |error: &ClientError| error.partition().is_none_or(|partition| &*partition.topic != topic);
        let failed = self.failed_topics.len();
        self.failed_topics.retain(is_other);
        if self.failed_topics.len() < failed {
            self.raise.retain(is_other);
        }
    }

    /// Forgets the errors of topics: the assignment changes.
    pub(crate) fn forget_topics(&mut self) {
        let forgotten = std::mem::take(&mut self.failed_topics);
        let topics: Vec<_> = forgotten.iter().filter_map(|error| Some(error.partition()?.topic.clone())).collect();
        self.raise.retain(|error| error.partition().is_none_or(|partition| !topics.contains(&partition.topic)));
    }

    /// True if this topic is known to have no partition that could be read.
    pub(crate) fn has_failed_topic(&self, topic: &str) -> bool {
        let about = |error: &ClientError| error.partition().is_some_and(|partition| &*partition.topic == topic);
        self.failed_topics.iter().any(about)
    }

    pub(super) fn fatal(&self) -> Option<&ClientError> {
        self.fatal.as_ref()
    }

    pub(super) fn failed_topics(&self) -> impl Iterator<Item = &ClientError> {
        self.failed_topics.iter()
    }

    pub(super) fn lasting_raised(&mut self) {
        self.lasting_raised_at = Some(Instant::now());
    }

    /// Time at which an error that lasts is raised again, at the latest `deadline`; `None` if it was not raised yet.
    pub(super) fn lasting_due(&self, deadline: Option<Instant>) -> Option<Instant> {
        let due = self.lasting_raised_at? + RAISED_AGAIN_AFTER;
        Some(deadline.map_or(due, |deadline| due.min(deadline)))
    }
}
