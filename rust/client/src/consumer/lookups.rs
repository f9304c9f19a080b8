//! Single lookups of the consumer: offsets, partitions of topics, the cluster, offsets of any group. Each ends when the
//! consumer is closed.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::cluster::Cluster;
use monedula_engine::group::CommitOffset;
use tokio::sync::watch;

use super::{Commits, CommittedOffsets, Consumer, FoundOffset, Partitions};
use crate::error::ClientError;
use crate::offsets::{EARLIEST, LATEST, MAX_TIMESTAMP, Offsets, Question};

impl Consumer {
    /// The smallest offset of each partition.
    pub fn beginning_offsets(&self, partitions: Partitions, timeout: Duration) -> impl OffsetLookup + use<> {
        self.look_up(partitions.into_iter().map(|partition| (partition, EARLIEST)).collect(), timeout)
    }

    /// The end of each partition; under read_committed, its last stable offset.
    pub fn end_offsets(&self, partitions: Partitions, timeout: Duration) -> impl OffsetLookup + use<> {
        self.look_up(partitions.into_iter().map(|partition| (partition, LATEST)).collect(), timeout)
    }

    /// The first record of each partition whose timestamp is at least the given one, in ms.
    pub fn offsets_for_times(&self, times: Vec<(TopicPartition, i64)>, timeout: Duration) -> impl OffsetLookup + use<> {
        self.look_up(times, timeout)
    }

    /// The first record of each partition whose timestamp is at least the given one, in ms, whatever the isolation
    /// level: no record before it is as young. Under read_committed, one of an open transaction would not count.
    pub fn first_at(&self, times: Vec<(TopicPartition, i64)>, timeout: Duration) -> impl OffsetLookup + use<> {
        self.look_up_by(self.base.offsets.uncommitted(), times, timeout)
    }

    /// The record with the largest timestamp of each partition, whatever the isolation level.
    pub fn max_timestamps(&self, partitions: Partitions, timeout: Duration) -> impl OffsetLookup + use<> {
        let what = partitions.into_iter().map(|partition| (partition, MAX_TIMESTAMP)).collect();
        self.look_up_by(self.base.offsets.uncommitted(), what, timeout)
    }

    fn look_up(&self, what: Vec<(TopicPartition, i64)>, timeout: Duration) -> impl OffsetLookup + use<> {
        self.look_up_by(self.base.offsets.clone(), what, timeout)
    }

    fn look_up_by(
        &self,
        offsets: Offsets,
        what: Vec<(TopicPartition, i64)>,
        timeout: Duration,
    ) -> impl OffsetLookup + use<> {
        let questions = what.into_iter().map(|(partition, what)| Question { partition, what });
        let questions: Vec<Question> = questions.collect();
        let closed = self.closed.subscribe();
        async move { unless_closed(closed, offsets.list(questions, timeout)).await }
    }

    /// Every partition of the topics.
    pub fn partitions_of(
        &self,
        topics: Vec<String>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Partitions, ClientError>> + Send + use<> {
        let offsets = self.base.offsets.clone();
        let closed = self.closed.subscribe();
        async move { unless_closed(closed, offsets.partitions_of(topics, timeout)).await }
    }

    /// The cluster as it is now: brokers, and these topics, or all. The error of a single topic stands in the topic.
    pub fn describe(
        &self,
        topics: Option<Vec<String>>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Cluster, ClientError>> + Send + use<> {
        let metadata = self.base.metadata.clone();
        let closed = self.closed.subscribe();
        let topics = topics.map(|topics| topics.into_iter().map(Arc::from).collect());
        async move { unless_closed(closed, metadata.describe(topics, timeout)).await }
    }

    /// Commits offsets to a consumer group without being a member of it: to a group that has members this is an error.
    pub fn commit_offsets(
        &self,
        group: String,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Commits, ClientError>> + Send + use<> {
        let (coordinators, closed) = (self.base.coordinators.clone(), self.closed.subscribe());
        async move { unless_closed(closed, coordinators.commit(group, offsets, timeout)).await }
    }

    /// The offsets that a consumer group has committed of these partitions, or of all.
    pub fn committed_offsets(
        &self,
        group: String,
        partitions: Option<Partitions>,
        timeout: Duration,
    ) -> impl Future<Output = Result<CommittedOffsets, ClientError>> + Send + use<> {
        let (coordinators, closed) = (self.base.coordinators.clone(), self.closed.subscribe());
        async move { unless_closed(closed, coordinators.committed(group, partitions, timeout)).await }
    }
}

/// `work`, or [`ClientError::Closed`] as soon as the consumer is closed.
async fn unless_closed<T>(
    mut closed: watch::Receiver<bool>,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::select! {
        biased;
        _ = closed.wait_for(|&closed| closed) => Err(ClientError::Closed),
        outcome = work => outcome,
    }
}

/// The outcome of an offset lookup: `None` where no record is that young.
pub trait OffsetLookup:
    Future<Output = Result<BTreeMap<TopicPartition, Option<FoundOffset>>, ClientError>> + Send
{
}

impl<T: Future<Output = Result<BTreeMap<TopicPartition, Option<FoundOffset>>, ClientError>> + Send> OffsetLookup for T {}
