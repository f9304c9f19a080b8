//! Computing the group's assignment as the leader (classic protocol), from fresh metadata of all
//! topics that members subscribe to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{AssignError, Assignor, perform, subscribed_topics, topics_of};
use monedula_engine::cluster::Cluster;
use monedula_engine::group::{Assignments, Ticket};
use monedula_protocol::error_code::ErrorCode;

use super::subscription::topic_infos;
use super::task::{Event, Task};
use crate::blocking::{self, NotRun};
use crate::error::ClientError;
use crate::log::{Log, kinds};
use crate::net::metadata::Metadata;
use crate::tasks::caught;

/// Member ids with the static ids and the encoded subscriptions.
type Members = Vec<(String, Option<String>, Vec<u8>)>;

/// A computed assignment with the metadata that it was computed from.
pub(super) struct LeaderAssignment {
    pub(super) assigned: Assignments,
    /// All topics that members of the group subscribe to.
    pub(super) topics: BTreeSet<Arc<str>>,
    pub(super) cluster: Cluster,
}

impl Task {
    /// Computes an assignment in a task of its own, which sends exactly one [`Event::Assigned`].
    pub(super) fn assign(&self, ticket: Ticket, name: String, members: Members) {
        let assignor = self.parts.assignors.iter().find(|assignor| assignor.name() == name).cloned();
        let (metadata, events, log) =
            (self.parts.base.metadata.clone(), self.events.clone(), self.parts.base.log.clone());
        let config = &self.parts.base.config;
        // The other members wait for this: the timeout does not exceed the one after which the
        // coordinator removes a leader.
        let timeout = config.session_timeout.min(config.max_poll_interval).min(config.default_api_timeout);
        tokio::spawn(async move {
            let outcome = match assignor {
                Some(assignor) => caught(compute(assignor, metadata, log, members, timeout))
                    .await
                    .unwrap_or_else(|reason| Err(failed(&name, reason))),
                None => Err(failed(&name, "the coordinator chose it, and this member does not have it".into())),
            };
            // The membership's task may have ended; the result is dropped then.
            let _ = events.send(Event::Assigned { ticket, outcome: outcome.map(Box::new) });
        });
    }
}

async fn compute(
    assignor: Arc<dyn Assignor>,
    metadata: Arc<Metadata>,
    log: Log,
    members: Members,
    timeout: Duration,
) -> Result<LeaderAssignment, AssignError> {
    let name = assignor.name().to_owned();
    let names = subscribed_topics(&members)?;
    let cluster = match names.is_empty() {
        true => Cluster::default(),
        false => {
            let asked = Some(names.iter().cloned().collect());
            match metadata.describe(asked, timeout).await {
                Ok(cluster) => with_known(cluster, &metadata.cluster(), metadata.propagation()),
                // Unreachable brokers are not a failure of the assignor: the next leader would get no metadata either.
                Err(error @ (ClientError::TimedOut { .. } | ClientError::Unreachable { .. })) => {
                    log.record(&kinds::ASSIGNMENT_FAILED, || {
                        format!("partitions are assigned by what was last known of the topics, if that is all: {error}")
                    });
                    let known = as_known(&metadata.cluster(), &names, metadata.propagation());
                    known.ok_or_else(|| AssignError::NoMetadata { reason: error.to_string() })?
                }
                Err(error) => return Err(failed(&name, error.to_string())),
            }
        }
    };
    let topics = topics_of(&cluster, &names);
    let counts = topics.iter().map(|(topic, partitions)| (topic.clone(), partitions.len())).collect();
    // A user's own assignor may be slow, and needs a thread that may block (it waits for the GIL, for example).
    let computed = blocking::run_patiently(timeout, move || perform(&*assignor, &topics, &members)).await;
    let assignments = computed.map_err(|error| match error {
        NotRun::NoThread(_) => AssignError::NoThread { assignor: name.clone(), reason: error.to_string() },
        NotRun::Ended(reason) => failed(&name, reason),
    })??;
    Ok(LeaderAssignment { assigned: (assignments, counts), topics: names, cluster })
}

/// The answer of one broker, completed by what this member knows: the broker may not know a new topic yet that another
/// one has described.
fn with_known(mut answer: Cluster, known: &Cluster, propagation: Duration) -> Cluster {
    for (name, topic) in &mut answer.topics {
        if topic.error == ErrorCode::UnknownTopicOrPartition
            && crate::offsets::missing(&TopicPartition::new(name.clone(), 0), known, propagation).is_ok()
            && let Some(known) = known.topics.get(name)
        {
            *topic = known.clone();
        }
    }
    answer
}

/// The last known metadata of these topics, if there is some for each. A later change causes the next rebalance.
fn as_known(cluster: &Cluster, names: &BTreeSet<Arc<str>>, propagation: Duration) -> Option<Cluster> {
    let there = topic_infos((cluster, propagation), false, names)?;
    let mut known = cluster.clone();
    known.topics.retain(|name, _| there.contains_key(name));
    Some(known)
}

fn failed(assignor: &str, reason: String) -> AssignError {
    AssignError::Failed { assignor: assignor.to_owned(), reason }
}
