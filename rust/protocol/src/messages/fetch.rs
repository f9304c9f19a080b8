//! Fetch, API key 1, versions 4-18 (Kafka 4.0 removed those below).
//!
//! 5 adds log start offsets, 7 incremental sessions (KIP-227), 9 leader epochs (KIP-320), 11 racks and
//! the preferred replica (KIP-392). 10 allows zstd in the response (KIP-110). 12 is flexible, and adds
//! the last fetched epoch, divergence and the current leader. 13 replaces topic names by ids (KIP-516).
//! 15 moves the replica id into a tagged field (KIP-903), 16 adds the endpoints of new leaders
//! (KIP-951); 17 and 18 add fields for followers only (KIP-853, KIP-1166).

use crate::types::Uuid;
use crate::wire::api;

api! {
    Fetch, versions 4..=18, flexible 12..;

    /// Asks for records.
    request FetchRequest<'a> {
        /// The cluster, if known; for replicas.
        cluster_id: Option<&'a str> = None, 12.., nullable 12.., tag 0, ignorable;
        /// The follower that asks; -1 for a client.
        replica_id: i32 = -1, 0..=14;
        /// The follower that asks, from version 15.
        replica_state: ReplicaState<'a>, 15.., tag 1;
        /// How long the broker may wait for `min_bytes`.
        max_wait_ms: i32, 0..;
        /// Bytes that are worth an answer.
        min_bytes: i32, 0..;
        /// The most bytes for all partitions; the first batch comes whole even so (KIP-74).
        max_bytes: i32 = i32::MAX, 3.., ignorable;
        /// 0 to see all records, 1 to see committed ones.
        isolation_level: i8, 4.., ignorable;
        /// The fetch session, or 0.
        session_id: i32, 7.., ignorable;
        /// The epoch in the session; -1 without one.
        session_epoch: i32 = -1, 7.., ignorable;
        /// What to fetch; in a session, what changed.
        topics: Vec<FetchTopic<'a>>, 0..;
        /// What to take out of the session.
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, 7..;
        /// The client's rack.
        rack_id: &'a str, 11.., ignorable;
    }

    /// Records.
    response FetchResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// The top-level error, or 0.
        error_code: i16, 7.., ignorable;
        /// The fetch session, or 0.
        session_id: i32, 7..;
        /// The topics; in a session, those with news.
        responses: Vec<FetchableTopicResponse<'a>>, 0..;
        /// Where to find the leaders named in the partitions.
        node_endpoints: Vec<NodeEndpoint<'a>>, 16.., tag 0;
    }

    /// A topic to fetch.
    struct FetchTopic<'a> {
        /// Its name, up to version 12.
        topic: &'a str, 0..=12, ignorable;
        /// Its id, from version 13.
        topic_id: Uuid, 13.., ignorable;
        /// Its partitions.
        partitions: Vec<FetchPartition<'a>>, 0..;
    }

    /// A partition to fetch.
    struct FetchPartition<'a> {
        /// Its index.
        partition: i32, 0..;
        /// The leader epoch that the client knows, or -1.
        current_leader_epoch: i32 = -1, 9.., ignorable;
        /// The first offset wanted.
        fetch_offset: i64, 0..;
        /// The epoch of the record before it, or -1.
        last_fetched_epoch: i32 = -1, 12..;
        /// Where the follower's log starts; -1 for a client.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// The most bytes of this partition; the first batch comes whole even so (KIP-74).
        partition_max_bytes: i32, 0..;
        /// The directory of the follower.
        replica_directory_id: Uuid, 17.., tag 0, ignorable;
        /// The high watermark that the follower knows.
        high_watermark: i64 = i64::MAX, 18.., tag 1, ignorable;
    }

    /// Partitions to take out of the session.
    struct ForgottenTopic<'a> {
        /// The topic's name, up to version 12.
        topic: &'a str, 7..=12, ignorable;
        /// The topic's id, from version 13.
        topic_id: Uuid, 13.., ignorable;
        /// The partitions.
        partitions: Vec<i32>, 7..;
    }

    /// The follower that asks.
    struct ReplicaState<'a> {
        /// Its id; -1 for a client.
        replica_id: i32 = -1, 15..;
        /// Its epoch, or -1.
        replica_epoch: i64 = -1, 15..;
    }

    /// A topic's records.
    struct FetchableTopicResponse<'a> {
        /// Its name, up to version 12.
        topic: &'a str, 0..=12, ignorable;
        /// Its id, from version 13.
        topic_id: Uuid, 13.., ignorable;
        /// Its partitions.
        partitions: Vec<PartitionData<'a>>, 0..;
    }

    /// A partition's records.
    struct PartitionData<'a> {
        /// Its index.
        partition_index: i32, 0..;
        /// The partition's error, or 0.
        error_code: i16, 0..;
        /// The end of what every in-sync replica has.
        high_watermark: i64, 0..;
        /// The end of what no open transaction can change, or -1.
        last_stable_offset: i64 = -1, 4.., ignorable;
        /// Where the log starts, or -1.
        log_start_offset: i64 = -1, 5.., ignorable;
        /// Where the client's log and the leader's part ways.
        diverging_epoch: EpochEndOffset<'a>, 12.., tag 0;
        /// The leader, where the broker asked is not.
        current_leader: LeaderIdAndEpoch<'a>, 12.., tag 1;
        /// The snapshot to load instead; for metadata replicas.
        snapshot_id: SnapshotId<'a>, 12.., tag 2;
        /// Transactions of which records here are to be dropped.
        aborted_transactions: Option<Vec<AbortedTransaction<'a>>>, 4.., nullable 4.., ignorable;
        /// The replica to fetch from, or -1 (KIP-392).
        preferred_read_replica: i32 = -1, 11..;
        /// Record batches, of which the last may be cut off.
        records: Option<&'a [u8]> = None, 0.., nullable 0..;
    }

    /// Where an epoch ends.
    struct EpochEndOffset<'a> {
        /// The largest epoch, or -1.
        epoch: i32 = -1, 12..;
        /// Its end, or -1.
        end_offset: i64 = -1, 12..;
    }

    /// A leader.
    struct LeaderIdAndEpoch<'a> {
        /// The broker, or -1.
        leader_id: i32 = -1, 12..;
        /// Its epoch, or -1.
        leader_epoch: i32 = -1, 12..;
    }

    /// A snapshot.
    struct SnapshotId<'a> {
        /// Where it ends, or -1.
        end_offset: i64 = -1, 0..;
        /// Its epoch, or -1.
        epoch: i32 = -1, 0..;
    }

    /// An aborted transaction.
    struct AbortedTransaction<'a> {
        /// The producer.
        producer_id: i64, 4..;
        /// Where the transaction starts.
        first_offset: i64, 4..;
    }

    /// A broker's address.
    struct NodeEndpoint<'a> {
        /// Its id.
        node_id: i32, 16..;
        /// Its advertised host.
        host: &'a str, 16..;
        /// Its advertised port.
        port: i32, 16..;
        /// Its rack, if it has one.
        rack: Option<&'a str> = None, 16.., nullable 16..;
    }
}
