//! The leader's step: who gets what, from fresh metadata of all that the members subscribe to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::assign::{AssignError, Assignor, perform, subscribed_topics, topics_of};
use monedula_engine::cluster::Cluster;
use monedula_engine::group::{Assignments, Ticket};

use super::task::{Event, Task};
use crate::metadata::Metadata;

/// Members with their static ids and subscriptions.
type Members = Vec<(String, Option<String>, Vec<u8>)>;

/// What the task keeps of a computed assignment.
pub(super) struct Led {
    pub(super) assigned: Assignments,
    /// All topics of the group, and what is known of them.
    pub(super) topics: BTreeSet<Arc<str>>,
    pub(super) cluster: Cluster,
}

impl Task {
    /// Computes an assignment; exactly one [`Event::Assigned`] comes of it.
    pub(super) fn assign(&self, ticket: Ticket, name: String, members: Members) {
        let assignor = self.parts.assignors.iter().find(|assignor| assignor.name() == name).cloned();
        let (metadata, events) = (self.parts.metadata.clone(), self.events.clone());
        // Past this the other members would have been thrown out.
        let timeout = self.parts.config.max_poll_interval.min(self.parts.config.default_api_timeout);
        tokio::spawn(async move {
            let outcome = match assignor {
                Some(assignor) => compute(assignor, metadata, members, timeout).await,
                None => Err(failed(&name, "the coordinator chose it, and this member does not have it".into())),
            };
            // The task may be gone; then nobody wants to know.
            let _ = events.send(Event::Assigned { ticket, outcome: outcome.map(Box::new) });
        });
    }
}

async fn compute(
    assignor: Arc<dyn Assignor>,
    metadata: Arc<Metadata>,
    members: Members,
    timeout: Duration,
) -> Result<Led, AssignError> {
    let name = assignor.name().to_owned();
    let names = subscribed_topics(&members)?;
    let cluster = match names.is_empty() {
        true => Cluster::default(),
        false => {
            let asked = Some(names.iter().cloned().collect());
            metadata.describe(asked, timeout).await.map_err(|error| failed(&name, error.to_string()))?
        }
    };
    let topics = topics_of(&cluster, &names);
    let counts = topics.iter().map(|(topic, partitions)| (topic.clone(), partitions.len())).collect();
    // A user's own assignor may take its time, and waits for a thread of the user's.
    let computed = tokio::task::spawn_blocking(move || perform(&*assignor, &topics, &members)).await;
    let assignments = computed.map_err(|error| failed(&name, error.to_string()))??;
    Ok(Led { assigned: (assignments, counts), topics: names, cluster })
}

fn failed(assignor: &str, reason: String) -> AssignError {
    AssignError::Failed { assignor: assignor.to_owned(), reason }
}
