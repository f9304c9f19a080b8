//! Reads the partitions of a fetch.

use monedula_protocol::error_code::ErrorCode;

use super::{Fetch, Fetched, Isolation, Wanted};
use crate::cluster::{NodeId, Nodes, Partition, Topics};
use crate::log::{Chunk, Log};
use crate::settings::KafkaSettings;

impl Isolation {
    /// The offset at which readable records end.
    pub(crate) fn end_of(self, log: &Log) -> i64 {
        match self {
            Self::LogEnd => log.end_offset(),
            Self::Uncommitted => log.high_watermark(),
            Self::Committed => log.last_stable_offset(),
        }
    }
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct FetchReader<'a> {
    topics: &'a Topics,
    nodes: &'a Nodes,
    /// `replica.selector.class`.
    selector: &'a str,
}

impl<'a> FetchReader<'a> {
    pub(crate) fn new(topics: &'a Topics, nodes: &'a Nodes, settings: &'a KafkaSettings) -> Self {
        Self { topics, nodes, selector: &settings.replica_selector_class }
    }

    /// Reads every partition of a fetch. As in Kafka, the first batch of the first partition with records is returned
    /// whole even if it exceeds the limits (KIP-74).
    pub(crate) fn read_all(self, fetch: &Fetch) -> Vec<Fetched> {
        let mut max_bytes = fetch.max_bytes;
        let mut whole_first = true;
        let mut results = Vec::with_capacity(fetch.wanted.len());
        for wanted in &fetch.wanted {
            let result = match self.read_one(fetch, wanted, max_bytes, whole_first) {
                Ok(fetched) => fetched,
                Err(error) => self.failed(fetch, wanted, error),
            };
            whole_first &= result.chunk.bytes == 0;
            max_bytes = max_bytes.saturating_sub(result.chunk.bytes);
            results.push(result);
        }
        results
    }

    fn read_one(
        self,
        fetch: &Fetch,
        wanted: &Wanted,
        max_bytes: usize,
        whole_first: bool,
    ) -> Result<Fetched, ErrorCode> {
        let partition = self.fetched_partition(fetch, wanted)?;
        let log = &partition.log;
        let mut fetched = Fetched {
            high_watermark: log.high_watermark(),
            last_stable_offset: log.last_stable_offset(),
            log_start_offset: log.start_offset(),
            ..Fetched::failed(wanted, ErrorCode::None)
        };
        fetched.preferred = self.preferred_replica(fetch, partition, wanted.fetch_offset);
        if fetched.preferred.is_some() {
            return Ok(fetched);
        }
        if wanted.last_fetched_epoch >= 0 {
            fetched.diverging = diverging(log, wanted)?;
            if fetched.diverging.is_some() {
                return Ok(fetched);
            }
        }
        // An offset between the high watermark and the log end offset is valid, but has no readable records yet.
        if wanted.fetch_offset < log.start_offset() || wanted.fetch_offset > log.end_offset() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let end_offset = fetch.isolation.end_of(log);
        let max_bytes = max_bytes.min(wanted.max_bytes.max(0) as usize);
        fetched.chunk = match wanted.fetch_offset < end_offset {
            true => log.read(wanted.fetch_offset, end_offset, max_bytes, whole_first)?,
            false => Chunk::default(),
        };
        // A client cannot use less than one batch, so it is left out. The first batch of the response is always whole.
        if !whole_first && fetched.chunk.is_less_than_a_batch() {
            fetched.chunk = Chunk { next_offset: wanted.fetch_offset, ..Chunk::default() };
        }
        if fetch.isolation == Isolation::Committed {
            let aborted = match fetched.chunk.bytes {
                0 => Vec::new(),
                _ => log.aborted_between(wanted.fetch_offset, fetched.chunk.next_offset).collect(),
            };
            fetched.aborted = Some(aborted);
        }
        Ok(fetched)
    }

    /// The partition, if the fetch may read it from the node that received the request.
    fn fetched_partition(self, fetch: &Fetch, wanted: &Wanted) -> Result<&'a Partition, ErrorCode> {
        if let Some(error) = wanted.refused {
            return Err(error);
        }
        let name = wanted.topic.as_deref().ok_or(ErrorCode::UnknownTopicId)?;
        let topic = self.topics.get(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let index = usize::try_from(wanted.index).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
        let partition = topic.partitions.get(index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if !partition.replicas.contains(&fetch.node) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        if !wanted.topic_id.is_zero() && wanted.topic_id != topic.id {
            return Err(ErrorCode::InconsistentTopicId);
        }
        partition.check_epoch(wanted.current_leader_epoch)?;
        // KIP-392: from version 11 on, clients may read from followers. NOT_LEADER_OR_FOLLOWER from one that is out of
        // sync sends them back to the leader.
        let from_follower = fetch.replica.is_none() && fetch.rack.is_some() && partition.isr.contains(&fetch.node);
        if partition.leader != Some(fetch.node) && !from_follower {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        match fetch.replica {
            Some(replica) if !partition.replicas.contains(&replica) => match wanted.current_leader_epoch {
                -1 => Err(ErrorCode::NotLeaderOrFollower),
                _ => Err(ErrorCode::UnknownLeaderEpoch),
            },
            _ => Ok(partition),
        }
    }

    /// The replica in the client's rack that the leader recommends to the client, if it is not the leader itself
    /// (KIP-392).
    fn preferred_replica(self, fetch: &Fetch, partition: &Partition, fetch_offset: i64) -> Option<NodeId> {
        let rack = fetch.rack.as_deref().filter(|rack| !rack.is_empty())?;
        let aware = self.selector.rsplit('.').next() == Some("RackAwareReplicaSelector");
        if !aware || fetch.replica.is_some() || partition.leader != Some(fetch.node) {
            return None;
        }
        let log = &partition.log;
        if !(log.start_offset()..=log.end_offset()).contains(&fetch_offset) {
            return None;
        }
        let in_rack = |&node: &NodeId| self.nodes.get(node).is_some_and(|node| node.rack.as_deref() == Some(rack));
        let near: Vec<NodeId> = partition.isr.iter().copied().filter(in_rack).collect();
        // All replicas have the same log end; among equals Kafka takes the largest id.
        if near.contains(&fetch.node) { None } else { near.into_iter().filter(|&node| self.nodes.is_alive(node)).max() }
    }

    fn failed(self, fetch: &Fetch, wanted: &Wanted, error: ErrorCode) -> Fetched {
        let hint = match error {
            // Clients up to version 5 do not know KAFKA_STORAGE_ERROR. NOT_LEADER_OR_FOLLOWER makes them refresh their
            // metadata.
            ErrorCode::KafkaStorageError if fetch.ticket.version <= 5 => {
                return Fetched::failed(wanted, ErrorCode::NotLeaderOrFollower);
            }
            ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch if fetch.ticket.version >= 16 => {
                self.topics.leader_hint(wanted.topic.as_deref().unwrap_or_default(), wanted.index)
            }
            _ => None,
        };
        // Kafka refuses topics before it looks for aborted transactions, and then answers an empty list instead of
        // null.
        let early = matches!(
            error,
            ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId | ErrorCode::TopicAuthorizationFailed
        );
        Fetched { current_leader: hint, aborted: early.then(Vec::new), ..Fetched::failed(wanted, error) }
    }

    /// The bytes that a fetch could read from its partition with this index.
    ///
    /// # Errors
    /// The error for the partition, with which the fetch must be answered at once.
    pub(crate) fn readable(self, fetch: &Fetch, place: usize) -> Result<u64, ErrorCode> {
        let wanted = &fetch.wanted[place];
        let partition = self.fetched_partition(fetch, wanted)?;
        let log = &partition.log;
        let end_offset = fetch.isolation.end_of(log);
        if wanted.fetch_offset < log.start_offset() || wanted.fetch_offset > log.end_offset() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let bytes = log.bytes_between(wanted.fetch_offset, end_offset);
        Ok(bytes.min(wanted.max_bytes.max(0) as u64))
    }
}

/// The diverging epoch and its end offset, if the client's log and this one diverge (KIP-595).
///
/// # Errors
/// OFFSET_OUT_OF_RANGE if the epoch is unknown, or the fetch offset lies before the log start offset.
fn diverging(log: &Log, wanted: &Wanted) -> Result<Option<(i32, i64)>, ErrorCode> {
    let (epoch, end_offset) =
        log.epochs().end_of(wanted.last_fetched_epoch, log.end_offset()).ok_or(ErrorCode::OffsetOutOfRange)?;
    if wanted.fetch_offset < log.start_offset() {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let parted = epoch < wanted.last_fetched_epoch || end_offset < wanted.fetch_offset;
    Ok(parted.then_some((epoch, end_offset)))
}
