//! Topics whose partitions are not known: metadata is requested again with growing backoff, until they are known or
//! fail (req S093). For a partition beyond those of a known topic, two metadata responses are awaited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::Now;
use monedula_engine::backoff::Backoff;
use monedula_engine::cluster;
use monedula_protocol::error_code::ErrorCode;

use crate::error::ClientError;
use crate::net::metadata::View;

/// A partition of a known topic counts as missing after this many metadata answers: the first may have been requested
/// before the partition was added.
const ANSWERS_FOR_PARTITION: u64 = 2;
/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct TopicPartitions {
    pub(super) count: u32,
    /// Partitions that have a leader.
    pub(super) led: Vec<u32>,
}

impl TopicPartitions {
    /// `None` while metadata does not have them.
    pub(crate) fn of(topic: &cluster::Topic) -> Option<Self> {
        let last = topic.partitions.keys().next_back().filter(|_| topic.error == ErrorCode::None)?;
        let led = topic.partitions.iter().filter(|(_, partition)| partition.leader.is_some());
        Some(Self { count: last.unsigned_abs() + 1, led: led.map(|(index, _)| index.unsigned_abs()).collect() })
    }
}

pub(super) enum TopicStatus {
    /// Nothing new.
    Waiting,
    /// Metadata is to be requested again, after this many attempts.
    Retry(u32),
    Known(TopicPartitions),
    /// The topic was known before, and its metadata is new enough to say which partitions it has.
    Refreshed,
    /// The topic cannot be sent to.
    Failed(ClientError),
    /// No metadata was received for this long.
    Expired(Duration),
}

struct PendingTopic {
    since: Now,
    attempts: u32,
    /// Time of the latest answer that did not know the topic, as of the last attempt.
    unknown_until: Option<Now>,
    next_at: Option<Now>,
    /// A partition beyond the known ones of a topic is awaited since there were this many metadata answers.
    answers_before: Option<u64>,
}

/// The topics with records that wait for metadata; see the [module](self).
pub(super) struct PendingTopics {
    topics: BTreeMap<Arc<str>, PendingTopic>,
    first_wait: Duration,
    propagation: Duration,
    timeout: Duration,
    /// Timeout in place of `timeout` while no broker has ever answered: the address is probably wrong.
    first_contact_timeout: Duration,
    /// True if a broker has ever answered.
    is_answered: bool,
}

impl PendingTopics {
    /// Topics fail that no answer knows for `propagation`, or without metadata for `timeout` (at first
    /// `bootstrap_timeout`).
    pub(super) fn new(backoff: Backoff, propagation: Duration, timeout: Duration, bootstrap_timeout: Duration) -> Self {
        Self {
            topics: BTreeMap::new(),
            first_wait: backoff.initial,
            propagation,
            timeout,
            first_contact_timeout: timeout.min(bootstrap_timeout),
            is_answered: false,
        }
    }

    fn limit(&self) -> Duration {
        if self.is_answered { self.timeout } else { self.first_contact_timeout }
    }

    pub(super) fn add(&mut self, topic: Arc<str>, now: Now) {
        let pending =
            PendingTopic { since: now, attempts: 0, unknown_until: None, next_at: None, answers_before: None };
        self.topics.insert(topic, pending);
    }

    /// Adds a known topic that may have more partitions by now; `answers` is the number of metadata answers so far.
    pub(super) fn add_known(&mut self, topic: Arc<str>, now: Now, answers: u64) {
        let answers_before = Some(answers);
        let pending = PendingTopic { since: now, attempts: 0, unknown_until: None, next_at: None, answers_before };
        self.topics.insert(topic, pending);
    }

    /// True if the topic is known, and only partitions of it are awaited.
    pub(super) fn is_known(&self, topic: &str) -> bool {
        self.topics.get(topic).is_some_and(|pending| pending.answers_before.is_some())
    }

    pub(super) fn remove(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    pub(super) fn topics(&self) -> BTreeSet<Arc<str>> {
        self.topics.keys().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Time of the next [`Self::check`].
    pub(super) fn wake_at(&self) -> Option<Now> {
        let limit = self.limit();
        let times = self.topics.values().map(|pending| {
            let deadline = pending.since + limit;
            pending.next_at.map_or(deadline, |next_at| next_at.min(deadline))
        });
        times.min()
    }

    pub(super) fn check(&mut self, name: &Arc<str>, view: &View, now: Now) -> TopicStatus {
        self.is_answered |= view.answers > 0;
        let limit = self.limit();
        let Some(pending) = self.topics.get_mut(name) else { return TopicStatus::Waiting };
        let after = now.saturating_sub(pending.since);
        if let Some(before) = pending.answers_before {
            return pending.check_partitions(view.answers.saturating_sub(before), after >= limit);
        }
        let known = view.cluster.topics.get(name);
        if let Some(partitions) = known.and_then(TopicPartitions::of) {
            return TopicStatus::Known(partitions);
        }
        let unknown = known.and_then(|topic| topic.unknown);
        if let Some(unknown) = unknown {
            let is_new = pending.unknown_until.is_none_or(|until| until < unknown.until);
            if is_new {
                pending.unknown_until = Some(unknown.until);
                pending.attempts = pending.attempts.saturating_add(1);
                pending.wait(now, self.first_wait);
            }
            // Answers from before the record was sent do not count.
            let unknown_for = unknown.until.saturating_sub(unknown.since).min(after);
            if is_new && unknown_for >= self.propagation || after >= limit {
                let attempts = pending.attempts;
                return TopicStatus::Failed(ClientError::UnknownTopic { topic: name.clone(), attempts, after });
            }
        }
        if after >= limit {
            return TopicStatus::Expired(after);
        }
        if let Some(topic) = known {
            match topic.error {
                ErrorCode::UnknownTopicOrPartition => {}
                error if error == ErrorCode::None || error.is_retriable() => {
                    if pending.next_at.is_none() {
                        pending.attempts = pending.attempts.saturating_add(1);
                        pending.wait(now, self.first_wait);
                    }
                }
                code => return TopicStatus::Failed(ClientError::of_topic(name, code)),
            }
        }
        if pending.next_at.is_some_and(|next_at| next_at <= now) {
            pending.next_at = None;
            return TopicStatus::Retry(pending.attempts);
        }
        TopicStatus::Waiting
    }
}

impl PendingTopic {
    fn check_partitions(&mut self, answers: u64, is_over: bool) -> TopicStatus {
        if answers >= ANSWERS_FOR_PARTITION || is_over {
            return TopicStatus::Refreshed;
        }
        let is_new = answers > u64::from(self.attempts);
        self.attempts = answers as u32;
        if is_new { TopicStatus::Retry(self.attempts) } else { TopicStatus::Waiting }
    }

    fn wait(&mut self, now: Now, first_wait: Duration) {
        let doubled = first_wait.saturating_mul(1 << self.attempts.saturating_sub(1).min(16));
        self.next_at = Some(now + doubled.min(LONGEST_WAIT));
    }
}
