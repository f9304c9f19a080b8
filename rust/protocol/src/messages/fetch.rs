//! Fetch, API key 1, versions 4-18 (Kafka 4.0 removed those below).
//!
//! Version 5 adds log start offsets, 7 incremental sessions (KIP-227), 9 leader epochs (KIP-320), 11 racks and the
//! preferred replica (KIP-392). 10 allows zstd in the response (KIP-110). 12 is flexible, and adds the last fetched
//! epoch, divergence and the current leader. 13 replaces topic names by ids (KIP-516). 15 moves the replica id into a
//! tagged field (KIP-903), 16 adds the endpoints of new leaders (KIP-951); 17 and 18 add fields for followers only
//! (KIP-853, KIP-1166).

use crate::types::Uuid;
use crate::wire::api;

api! {
    Fetch, versions 4..=18, flexible 12..;

    /// Reads records of partitions.
    request FetchRequest<'a> {
        /// The cluster id, if known; for replicas.
        cluster_id: Option<&'a str> = None, 12.., nullable 12.., tag 0, ignorable;
        /// The id of the follower; -1 for a client.
        replica_id: i32 = -1, 0..=14;
        /// The replica state of the follower, from version 15.
        replica_state: ReplicaState<'a>, 15.., tag 1;
        /// The longest time that the broker waits for `min_bytes`, in milliseconds.
        max_wait_ms: i32, 0..;
        /// The number of bytes for which the broker waits before it responds.
        min_bytes: i32, 0..;
        /// The maximum number of bytes for all partitions; the first batch is returned whole even if it is larger
        /// (KIP-74).
        max_bytes: i32 = i32::MAX, 3.., ignorable;
        /// The isolation level: 0 read_uncommitted, 1 read_committed.
        isolation_level: i8, 4.., ignorable;
        /// The id of the fetch session, or 0.
        session_id: i32, 7.., ignorable;
        /// The epoch of the fetch session; -1 without a session.
        session_epoch: i32 = -1, 7.., ignorable;
        /// The partitions to fetch; in a fetch session, only those added or changed.
        topics: Vec<FetchTopic<'a>>, 0..;
        /// The partitions to remove from the fetch session.
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, 7..;
        /// The client's rack.
        rack_id: &'a str, 11.., ignorable;
    }

    /// The records of each partition.
    response FetchResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        /// The top-level error, or 0.
        error_code: i16, 7.., ignorable;
        /// The id of the fetch session, or 0.
        session_id: i32, 7..;
        /// The topics; in a fetch session, only those with changed partitions.
        responses: Vec<FetchableTopicResponse<'a>>, 0..;
        /// The addresses of the leaders named in the partitions.
        node_endpoints: Vec<NodeEndpoint<'a>>, 16.., tag 0;
    }

    /// A topic to fetch.
    struct FetchTopic<'a> {
        topic: &'a str, 0..=12, ignorable;
        topic_id: Uuid, 13.., ignorable;
        partitions: Vec<FetchPartition<'a>>, 0..;
    }

    /// A partition to fetch.
    struct FetchPartition<'a> {
        /// The partition's index.
        partition: i32, 0..;
        /// The leader epoch that the client knows, or -1.
        current_leader_epoch: i32 = -1, 9.., ignorable;
        fetch_offset: i64, 0..;
        /// The leader epoch of the record before the fetch offset, or -1.
        last_fetched_epoch: i32 = -1, 12..;
        /// The log start offset of the follower; -1 for a client.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// The maximum number of bytes for this partition; the response's first batch is returned whole even if it is
        /// larger (KIP-74).
        partition_max_bytes: i32, 0..;
        /// The id of the follower's log directory.
        replica_directory_id: Uuid, 17.., tag 0, ignorable;
        /// The high watermark that the follower knows.
        high_watermark: i64 = i64::MAX, 18.., tag 1, ignorable;
    }

    /// Partitions of a topic to remove from the fetch session.
    struct ForgottenTopic<'a> {
        topic: &'a str, 7..=12, ignorable;
        topic_id: Uuid, 13.., ignorable;
        partitions: Vec<i32>, 7..;
    }

    /// The replica state of the follower.
    struct ReplicaState<'a> {
        /// The replica's id; -1 for a client.
        replica_id: i32 = -1, 15..;
        /// The replica's epoch, or -1.
        replica_epoch: i64 = -1, 15..;
    }

    /// A topic's records.
    struct FetchableTopicResponse<'a> {
        topic: &'a str, 0..=12, ignorable;
        topic_id: Uuid, 13.., ignorable;
        partitions: Vec<PartitionData<'a>>, 0..;
    }

    /// A partition's records.
    struct PartitionData<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        /// The high watermark: the offset after the last record that every in-sync replica has.
        high_watermark: i64, 0..;
        /// The last stable offset: all transactions below it are completed; or -1.
        last_stable_offset: i64 = -1, 4.., ignorable;
        /// The log start offset, or -1.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// The largest epoch and its end offset at which the client's log and the leader's diverge.
        diverging_epoch: EpochEndOffset<'a>, 12.., tag 0;
        /// The current leader, if this broker is not the leader.
        current_leader: LeaderIdAndEpoch<'a>, 12.., tag 1;
        /// The snapshot to fetch instead; for replicas of the metadata log.
        snapshot_id: SnapshotId<'a>, 12.., tag 2;
        /// The aborted transactions with records in this response, which the client must hide.
        aborted_transactions: Option<Vec<AbortedTransaction<'a>>>, 4.., nullable 4.., ignorable;
        /// The replica to fetch from, or -1 (KIP-392).
        preferred_read_replica: i32 = -1, 11..;
        /// Record batches; the last one may be partial.
        records: Option<&'a [u8]> = None, 0.., nullable 0..;
    }

    /// An epoch and its end offset.
    struct EpochEndOffset<'a> {
        /// The largest epoch, or -1.
        epoch: i32 = -1, 12..;
        /// The end offset of the epoch, or -1.
        end_offset: i64 = -1, 12..;
    }

    /// A leader.
    struct LeaderIdAndEpoch<'a> {
        /// The broker, or -1.
        leader_id: i32 = -1, 12..;
        /// The leader's epoch, or -1.
        leader_epoch: i32 = -1, 12..;
    }

    /// A snapshot.
    struct SnapshotId<'a> {
        /// The end offset, or -1.
        end_offset: i64 = -1, 0..;
        /// The snapshot's epoch, or -1.
        epoch: i32 = -1, 0..;
    }

    /// An aborted transaction.
    struct AbortedTransaction<'a> {
        producer_id: i64, 4..;
        first_offset: i64, 4..;
    }

    /// A broker's address.
    struct NodeEndpoint<'a> {
        node_id: i32, 16..;
        /// The node's advertised host.
        host: &'a str, 16..;
        /// The node's advertised port.
        port: i32, 16..;
        /// The node's rack, if it has one.
        rack: Option<&'a str> = None, 16.., nullable 16..;
    }
}
