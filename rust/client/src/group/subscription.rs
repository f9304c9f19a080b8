//! Resolving a subscription to topics: those given by name, or those of the cluster that match a pattern.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::cluster::Cluster;
use monedula_engine::group::TopicInfo;
use regex::Regex;

use super::Subscribed;
use crate::error::ClientError;
use crate::net::metadata::{Filter, View};
use crate::topic_name;

/// A validated subscription with compiled patterns.
#[derive(Clone, Debug)]
pub(crate) enum CompiledSubscription {
    Topics(BTreeSet<Arc<str>>),
    Pattern(Pattern),
    /// The broker matches it; which topics match shows only in the assignment.
    ServerPattern(String),
}

/// See [`Subscribed::Pattern`].
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    include: Regex,
    exclude: Option<Regex>,
    /// True if internal topics are left out.
    no_internal: bool,
}

impl CompiledSubscription {
    /// Validates a subscription and compiles its patterns.
    ///
    /// # Errors
    /// [`ClientError::Argument`] if there is no topic, if no topic can have one of the names, or if a pattern is empty
    /// or does not compile.
    pub(crate) fn read(what: Subscribed, no_internal: bool) -> Result<Self, ClientError> {
        match what {
            Subscribed::Topics(topics) if topics.is_empty() => {
                Err(ClientError::Argument("subscribe() needs a topic; unsubscribe() ends a subscription".into()))
            }
            Subscribed::Topics(topics) => {
                topics.iter().try_for_each(|topic| topic_name::check_read(topic))?;
                Ok(Self::Topics(topics))
            }
            Subscribed::Pattern { include, exclude } => {
                let exclude = exclude.as_deref().map(whole).transpose()?;
                Ok(Self::Pattern(Pattern { include: whole(&include)?, exclude, no_internal }))
            }
            Subscribed::ServerPattern(pattern) if pattern.is_empty() => {
                Err(ClientError::Argument("a pattern for the broker must not be empty: it would match nothing".into()))
            }
            Subscribed::ServerPattern(pattern) => Ok(Self::ServerPattern(pattern)),
        }
    }

    /// The filter for a full metadata listing; `None` unless this is a pattern that the client matches.
    pub(super) fn filter(&self) -> Option<Filter> {
        match self {
            Self::Topics(_) | Self::ServerPattern(_) => None,
            Self::Pattern(pattern) => {
                let pattern = pattern.clone();
                Some(Arc::new(move |topic: &str, internal| pattern.matches(topic, internal)))
            }
        }
    }

    /// The topics that the subscription matches now; `None` until metadata has listed all topics.
    pub(super) fn topics(&self, view: &View) -> Option<BTreeSet<Arc<str>>> {
        match self {
            Self::Topics(topics) => Some(topics.clone()),
            Self::ServerPattern(_) => Some(BTreeSet::new()),
            Self::Pattern(_) if !view.complete => None,
            Self::Pattern(pattern) => {
                let topics = view.cluster.topics.iter();
                let matching = topics.filter(|(name, topic)| pattern.matches(name, topic.is_internal));
                Some(matching.map(|(name, _)| name.clone()).collect())
            }
        }
    }
}

impl Pattern {
    fn matches(&self, topic: &str, internal: bool) -> bool {
        let excluded =
            internal && self.no_internal || self.exclude.as_ref().is_some_and(|exclude| exclude.is_match(topic));
        !excluded && self.include.is_match(topic)
    }
}

/// The error for a pattern that the broker would have to match, under the classic protocol, where it cannot.
pub(crate) fn pattern_for_nobody(pattern: &str) -> ClientError {
    ClientError::Argument(format!(
        "the pattern {pattern:?} is for the broker to match, which it does under the protocol of KIP-848 only \
         (group.protocol=consumer); under the classic one give subscribe(pattern=...)"
    ))
}

/// Compiles the pattern for whole names, as in Java: `commands` must not also match `commands-dead-letters`.
fn whole(pattern: &str) -> Result<Regex, ClientError> {
    Regex::new(&format!(r"\A(?:{pattern})\z"))
        .map_err(|error| ClientError::Argument(format!("the pattern {pattern:?} cannot be read: {error}")))
}

/// Ids and partition counts of the topics that exist, or have not been missing for `propagation`; `None` if metadata
/// lacks an entry of one. With `lists_all` metadata has all topics that exist, so one without an entry does not.
pub(crate) fn topic_infos<'t>(
    (cluster, propagation): (&Cluster, Duration),
    lists_all: bool,
    topics: impl IntoIterator<Item = &'t Arc<str>>,
) -> Option<BTreeMap<Arc<str>, TopicInfo>> {
    let mut infos = BTreeMap::new();
    for name in topics {
        let topic = match cluster.topics.get(name) {
            Some(topic) => topic,
            None if lists_all => continue,
            None => return None,
        };
        let exists = crate::offsets::missing(&TopicPartition::new(name.clone(), 0), cluster, propagation).is_ok();
        if let Some((&last, _)) = topic.partitions.last_key_value().filter(|_| exists) {
            infos.insert(name.clone(), TopicInfo { id: topic.id, partitions: last as usize + 1 });
        }
    }
    Some(infos)
}

#[cfg(test)]
mod tests {
    use monedula_engine::cluster::{Partition, Topic};
    use monedula_protocol::error_code::ErrorCode;
    use monedula_protocol::types::Uuid;

    use super::*;

    // A leader with a pattern was told of no topic any more once another member named one that did not exist.
    #[test]
    fn where_all_topics_are_listed_one_without_an_entry_does_not_exist() {
        let leader = Partition { leader: Some(1), leader_epoch: 0 };
        let orders = Topic {
            id: Uuid([7; 16]),
            is_internal: false,
            error: ErrorCode::None,
            unknown: None,
            partitions: [(0, leader), (1, leader)].into(),
            replicas: BTreeMap::new(),
        };
        let cluster = Cluster { topics: [("orders".into(), orders)].into(), ..Cluster::default() };
        let names: [Arc<str>; 2] = ["mistyped".into(), "orders".into()];
        assert_eq!(
            topic_infos((&cluster, Duration::ZERO), false, &names),
            None,
            "an answer with the first may be under way"
        );
        let orders = TopicInfo { id: Uuid([7; 16]), partitions: 2 };
        assert_eq!(topic_infos((&cluster, Duration::ZERO), true, &names), Some([("orders".into(), orders)].into()));
    }

    fn pattern(include: &str, exclude: Option<&str>) -> Pattern {
        let what = Subscribed::Pattern { include: include.into(), exclude: exclude.map(Into::into) };
        match CompiledSubscription::read(what, true).expect("patterns") {
            CompiledSubscription::Pattern(pattern) => pattern,
            other => panic!("no pattern: {other:?}"),
        }
    }

    #[test]
    fn patterns_mean_whole_names_and_no_internal_topics() {
        let commands = pattern("commands|audit.*", None);
        assert!(commands.matches("commands", false) && commands.matches("audit-log", false));
        assert!(!commands.matches("commands-dead", false) && !commands.matches("my-commands", false));
        assert!(!pattern(".*", None).matches("__consumer_offsets", true));
    }

    #[test]
    fn what_is_excluded_is_left_out() {
        let all_but = pattern("commands.*", Some(".*-dead"));
        assert!(all_but.matches("commands-eu", false));
        assert!(!all_but.matches("commands-dead", false));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_says_where() {
        let what = Subscribed::Pattern { include: "a(".into(), exclude: None };
        let error = CompiledSubscription::read(what, true).expect_err("unbalanced").to_string();
        assert!(error.contains("\"a(\""), "{error}");
    }
}
