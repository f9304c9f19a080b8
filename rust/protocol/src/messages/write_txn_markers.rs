//! WriteTxnMarkers, API key 27, versions 1-2, flexible.
//!
//! Version 2 has the version of the transaction (KIP-1228). Kafka 4.0 removed version 0.

use crate::wire::api;

api! {
    WriteTxnMarkers, versions 1..=2, flexible 1..;

    /// Writes the markers that end transactions in partitions; sent to their leaders.
    request WriteTxnMarkersRequest<'a> {
        markers: Vec<WritableTxnMarker<'a>>, 1..;
    }

    /// The outcomes.
    response WriteTxnMarkersResponse<'a> {
        markers: Vec<WritableTxnMarkerResult<'a>>, 1..;
    }

    /// The end of one producer's transaction.
    struct WritableTxnMarker<'a> {
        producer_id: i64, 1..;
        producer_epoch: i16, 1..;
        /// True for a commit, false for an abort.
        transaction_result: bool, 1..;
        topics: Vec<WritableTxnMarkerTopic<'a>>, 1..;
        /// The leader epoch of the coordinator's partition of `__transaction_state`.
        coordinator_epoch: i32, 1..;
        /// 2 if every transaction has an epoch of its own (KIP-890).
        transaction_version: i8, 2.., ignorable;
    }

    /// A topic of a marker.
    struct WritableTxnMarkerTopic<'a> {
        name: &'a str, 1..;
        partition_indexes: Vec<i32>, 1..;
    }

    /// The outcomes of one marker.
    struct WritableTxnMarkerResult<'a> {
        producer_id: i64, 1..;
        topics: Vec<WritableTxnMarkerTopicResult<'a>>, 1..;
    }

    /// The outcomes of one topic.
    struct WritableTxnMarkerTopicResult<'a> {
        name: &'a str, 1..;
        partitions: Vec<WritableTxnMarkerPartitionResult<'a>>, 1..;
    }

    /// The outcome of one partition.
    struct WritableTxnMarkerPartitionResult<'a> {
        partition_index: i32, 1..;
        error_code: i16, 1..;
    }
}
