//! Topics whose partitions are not known: asked for again and again, ever more slowly, and given up in the end (seed S093).
//! Partitions beyond those of a known topic are asked for once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::Now;
use monedula_engine::backoff::Backoff;
use monedula_protocol::error_code::ErrorCode;

use super::accumulator::Partitions;
use crate::error::ClientError;
use crate::net::metadata::View;

/// How often a topic that does not exist is looked up.
const TRIES: u32 = 5;
/// Answers after which a partition of a known topic counts as missing: the first may have been asked for before it was added.
const ANSWERS_BEYOND: u64 = 2;
/// Longest wait between two of them.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What a look at a topic gave.
pub(super) enum Looked {
    /// Nothing new.
    Waiting,
    /// It is time to ask again, after so many tries.
    Again(u32),
    /// It can be sent to.
    Known(Partitions),
    /// What metadata says of partitions that were not known is as new as can be.
    Asked,
    /// It cannot be sent to.
    Failed(ClientError),
    /// Nobody answered for so long.
    Expired(Duration),
}

struct Lookup {
    since: Now,
    tries: u32,
    /// What metadata had counted at the last try.
    counted: u32,
    next_at: Option<Now>,
    /// The topic is known, and partitions of it are asked for: how many answers there were when that began.
    beyond: Option<u64>,
}

/// See the [module](self).
pub(super) struct Lookups {
    topics: BTreeMap<Arc<str>, Lookup>,
    first_wait: Duration,
    timeout: Duration,
}

impl Lookups {
    pub(super) fn new(backoff: Backoff, timeout: Duration) -> Self {
        Self { topics: BTreeMap::new(), first_wait: backoff.initial, timeout }
    }

    pub(super) fn begin(&mut self, topic: Arc<str>, now: Now) {
        let lookup = Lookup { since: now, tries: 0, counted: 0, next_at: None, beyond: None };
        self.topics.insert(topic, lookup);
    }

    /// Partitions of a known topic are asked for, after so many answers.
    pub(super) fn begin_beyond(&mut self, topic: Arc<str>, now: Now, answers: u64) {
        let lookup = Lookup { since: now, tries: 0, counted: 0, next_at: None, beyond: Some(answers) };
        self.topics.insert(topic, lookup);
    }

    /// Whether the topic itself is known.
    pub(super) fn is_beyond(&self, topic: &str) -> bool {
        self.topics.get(topic).is_some_and(|lookup| lookup.beyond.is_some())
    }

    pub(super) fn end(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    pub(super) fn topics(&self) -> BTreeSet<Arc<str>> {
        self.topics.keys().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// When something is to be looked at again.
    pub(super) fn wake_at(&self) -> Option<Now> {
        let times = self.topics.values().map(|lookup| {
            let deadline = lookup.since + self.timeout;
            lookup.next_at.map_or(deadline, |next_at| next_at.min(deadline))
        });
        times.min()
    }

    pub(super) fn look(&mut self, name: &Arc<str>, view: &View, now: Now) -> Looked {
        let Some(lookup) = self.topics.get_mut(name) else { return Looked::Waiting };
        let after = now.saturating_sub(lookup.since);
        if let Some(before) = lookup.beyond {
            return lookup.look_beyond(view.answers.saturating_sub(before), after >= self.timeout);
        }
        let known = view.cluster.topics.get(name);
        if let Some(partitions) = known.and_then(Partitions::of) {
            return Looked::Known(partitions);
        }
        if after >= self.timeout {
            return Looked::Expired(after);
        }
        if let Some(topic) = known {
            match topic.error {
                ErrorCode::UnknownTopicOrPartition if topic.unknown_answers > lookup.counted => {
                    lookup.counted = topic.unknown_answers;
                    lookup.tries += 1;
                    if lookup.tries >= TRIES {
                        let attempts = lookup.tries;
                        return Looked::Failed(ClientError::UnknownTopic { topic: name.clone(), attempts, after });
                    }
                    lookup.wait(now, self.first_wait);
                }
                error if error == ErrorCode::None || error.is_retriable() => {
                    if lookup.next_at.is_none() {
                        lookup.tries = (lookup.tries + 1).min(TRIES - 1);
                        lookup.wait(now, self.first_wait);
                    }
                }
                code => {
                    let what = format!("looking up the topic {name}");
                    return Looked::Failed(ClientError::Broker { what, code });
                }
            }
        }
        if lookup.next_at.is_some_and(|next_at| next_at <= now) {
            lookup.next_at = None;
            return Looked::Again(lookup.tries);
        }
        Looked::Waiting
    }
}

impl Lookup {
    fn look_beyond(&mut self, answers: u64, is_over: bool) -> Looked {
        if answers >= ANSWERS_BEYOND || is_over {
            return Looked::Asked;
        }
        let is_new = answers > u64::from(self.tries);
        self.tries = answers as u32;
        if is_new { Looked::Again(self.tries) } else { Looked::Waiting }
    }

    fn wait(&mut self, now: Now, first_wait: Duration) {
        let doubled = first_wait.saturating_mul(1 << self.tries.saturating_sub(1));
        self.next_at = Some(now + doubled.min(LONGEST_WAIT));
    }
}
