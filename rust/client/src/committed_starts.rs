//! Partitions that are assigned by hand and start at the offsets that their group has committed. A consumer that is no
//! member of the group looks these up by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::base::ClientBase;
use crate::error::ClientError;
use crate::fetch::buffer::FetchBuffer;
use crate::log::{Entry, kinds};
use crate::reach::Reach;

/// Looks up committed offsets for partitions that wait for theirs.
#[derive(Clone)]
pub(crate) struct CommittedStarts {
    pub(crate) base: ClientBase,
    pub(crate) buffer: Arc<FetchBuffer>,
    pub(crate) reach: Reach,
    pub(crate) runtime: Handle,
    /// True if the consumer is closed.
    pub(crate) closed: watch::Receiver<bool>,
}

impl CommittedStarts {
    /// Starts these partitions, each with the id of its reading, once their offsets are known; unless they are sought
    /// or unassigned meanwhile.
    pub(crate) fn look_up(&self, waiting: Vec<(TopicPartition, u64)>) {
        if waiting.is_empty() {
            return;
        }
        let (starts, mut closed) = (self.clone(), self.closed.clone());
        self.runtime.spawn(async move {
            tokio::select! {
                // An error means that the consumer is gone.
                _ = closed.wait_for(|&closed| closed) => {}
                () = starts.until_started(waiting) => {}
            }
        });
    }

    /// Asks until all are known: an error, such as a missing permission, may be mended. Each error is raised once.
    async fn until_started(&self, mut waiting: Vec<(TopicPartition, u64)>) {
        let mut jitter = Jitter::new(Instant::now().elapsed().as_nanos() as u64);
        let mut raised = BTreeMap::new();
        for attempt in 0.. {
            waiting.retain(|(partition, reading_id)| {
                self.buffer.look(|state| state.partitions().waits_for_start(partition, *reading_id))
            });
            if waiting.is_empty() {
                return;
            }
            match self.ask(&waiting).await {
                Ok(found) => {
                    self.reach.coordinator_answered();
                    self.start(&waiting, found, &mut raised);
                }
                // No coordinator has answered yet; health() shows why.
                Err(error @ (ClientError::TimedOut { .. } | ClientError::Unreachable { .. })) => {
                    self.reach.coordinator_failed(error.to_string());
                    self.base.log.record(&kinds::START_UNKNOWN, || format!("where to start is not known yet: {error}"));
                }
                Err(error) => waiting.iter().for_each(|place| self.refused(place, error.clone(), &mut raised)),
            }
            tokio::time::sleep(self.base.config.retry_backoff.delay(attempt, &mut jitter)).await;
        }
    }

    async fn ask(
        &self,
        waiting: &[(TopicPartition, u64)],
    ) -> Result<crate::coordinator::CommittedOffsets, ClientError> {
        let group = self.base.config.group_id.clone().unwrap_or_default();
        let partitions = waiting.iter().map(|(partition, _)| partition.clone()).collect();
        self.base.coordinators.stable(group, partitions, self.base.config.default_api_timeout).await
    }

    fn start(
        &self,
        waiting: &[(TopicPartition, u64)],
        mut found: crate::coordinator::CommittedOffsets,
        raised: &mut BTreeMap<TopicPartition, String>,
    ) {
        for place @ (partition, reading_id) in waiting {
            match found.remove(partition) {
                Some(Ok(committed)) => self.buffer.assignment().start(partition, *reading_id, committed),
                // An open transaction has offsets of the partition (KIP-447): asked again until it has ended.
                Some(Err(fault)) if fault.code().is_retriable() => {
                    self.base.log.record(&kinds::START_UNKNOWN, || {
                        Entry::new(format!("where to start is not known yet: {fault}"))
                            .partition(partition)
                            .code(fault.code())
                    });
                }
                Some(Err(fault)) => self.refused(place, fault.into(), raised),
                // The answer left it out.
                None => {}
            }
        }
    }

    fn refused(
        &self,
        (partition, reading_id): &(TopicPartition, u64),
        error: ClientError,
        raised: &mut BTreeMap<TopicPartition, String>,
    ) {
        let text = error.to_string();
        if raised.get(partition) != Some(&text) {
            raised.insert(partition.clone(), text);
            self.buffer.assignment().start_failed(partition, Some(*reading_id), error);
        }
    }
}
