//! Descriptions of the cluster and its topics, asked for by one call, beside the view that is kept fresh.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Cluster;
use monedula_protocol::types::Uuid;

use super::metadata::{Metadata, MetadataTopics};
use crate::error::{ClientError, RequestError};
use crate::net::network::{NodeFallback, NodeId};
use crate::run_time::{self, RunInstant};

impl Metadata {
    /// The cluster as it is now, with these topics, or all of them. Nothing of it is kept here but the brokers; an
    /// error of a single topic stands in the topic.
    ///
    /// # Errors
    /// If no broker answers within `timeout`.
    pub(crate) async fn describe(
        &self,
        topics: Option<Vec<Arc<str>>>,
        timeout: Duration,
    ) -> Result<Cluster, ClientError> {
        self.describe_asked(topics.map_or(MetadataTopics::All, MetadataTopics::Names), timeout).await
    }

    /// As [`Self::describe`], of the topics with these ids. One that the broker does not know is left out.
    ///
    /// # Errors
    /// If no broker answers within `timeout`.
    pub(crate) async fn describe_ids(&self, ids: BTreeSet<Uuid>, timeout: Duration) -> Result<Cluster, ClientError> {
        self.describe_asked(MetadataTopics::Ids(ids), timeout).await
    }

    async fn describe_asked(&self, topics: MetadataTopics, timeout: Duration) -> Result<Cluster, ClientError> {
        let started = RunInstant::now();
        let mut last_error = None;
        let described = self.network.within(timeout, self.describe_until_answered(&topics, &mut last_error)).await;
        described.unwrap_or_else(|owed| {
            let never_reached = self.view.borrow().answers == 0 && self.network.connected() == 0;
            Err(match never_reached {
                true => self.network.unreachable(started.elapsed()),
                false => {
                    let last_error = owed.explain(last_error);
                    ClientError::TimedOut { what: "the lookup of topics".into(), after: timeout, last_error }
                }
            })
        })
    }

    async fn describe_until_answered(
        &self,
        topics: &MetadataTopics,
        last_error: &mut Option<String>,
    ) -> Result<Cluster, ClientError> {
        let (began, mut jitter) = (RunInstant::now(), Jitter::new(self.started.elapsed().as_nanos() as u64));
        for attempt in 0.. {
            let timeout = self.config.request_timeout;
            let mut nodes = NodeFallback::new(self.network.candidates());
            let ask = |node| async move {
                let described = run_time::timeout(timeout, self.describe_from(node, topics)).await;
                described.unwrap_or_else(|| Err(self.network.gave_up(node, timeout)))
            };
            while let Some((_, described)) = nodes.next(ask).await {
                match described {
                    Ok(cluster) => {
                        self.network.set_brokers(&cluster.brokers);
                        return Ok(cluster);
                    }
                    Err(RequestError::Fatal(error)) => return Err(*error),
                    Err(error) => *last_error = Some(error.to_string()),
                }
            }
            self.metrics.retriable_error("metadata");
            // As every other call, one that cannot log in ends by `bootstrap.timeout.ms`, however much time it has.
            if self.view.borrow().answers == 0 && began.elapsed() >= self.config.bootstrap_timeout {
                let error = self.network.unreachable(began.elapsed());
                if matches!(error, ClientError::Authentication(_)) {
                    return Err(error);
                }
            }
            tokio::time::sleep(self.config.retry_backoff.delay(attempt, &mut jitter)).await;
        }
        Err(ClientError::Closed)
    }

    async fn describe_from(&self, node: NodeId, topics: &MetadataTopics) -> Result<Cluster, RequestError> {
        let (answer, version) = self.request(node, topics).await?;
        let mut cluster = Cluster::default();
        cluster.update(&self.response(node, &answer, version)?, Duration::ZERO);
        Ok(cluster)
    }
}
