//! WriteTxnMarkers, versions 1-2: ends transactions in partitions that the node leads, as a coordinator asks for it, or
//! an administrator who aborts a hanging transaction (KIP-664). The embedded coordinator writes its own markers without
//! this request. As in Kafka, the coordinator does not hear of a marker that an administrator writes.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};

use super::{Handled, code};
use crate::core::{Core, Marker};
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &WriteTxnMarkersRequest<'_>) -> Handled {
    if !core.allows(call, Operation::Alter, Resource::Cluster) {
        core.authorize(call, Operation::ClusterAction, Resource::Cluster)?;
    }
    let response = respond(request, |marker, topic, index| write(core, call, marker, topic, index));
    Ok(call.answer::<WriteTxnMarkersRequest<'_>>(&response))
}

fn write(
    core: &mut Core,
    call: &Call<'_>,
    marker: &WritableTxnMarker<'_>,
    topic: &str,
    index: i32,
) -> Result<(), ErrorCode> {
    if let Some(error) = core.faults.partition_error(call, topic, index) {
        return Err(error);
    }
    let partition = core.topics.partition(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if partition.leader != Some(call.node) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    // A failure inside of Kafka, which makes its marker before it looks at the producer.
    if marker.producer_epoch < 0 {
        return Err(ErrorCode::UnknownServerError);
    }
    let marker = Marker {
        transaction_version: marker.transaction_version.into(),
        producer_id: marker.producer_id,
        producer_epoch: marker.producer_epoch,
        commit: marker.transaction_result,
        coordinator_epoch: marker.coordinator_epoch,
    };
    core.end_in_partition(topic, index, marker)
}

/// The response with the outcome of each partition.
fn respond<'a>(
    request: &WriteTxnMarkersRequest<'a>,
    mut outcome: impl FnMut(&WritableTxnMarker<'a>, &str, i32) -> Result<(), ErrorCode>,
) -> WriteTxnMarkersResponse<'a> {
    let mut markers = Vec::with_capacity(request.markers.len());
    // Kafka leaves out a marker for no partition.
    let has_partitions =
        |marker: &&WritableTxnMarker<'_>| marker.topics.iter().any(|topic| !topic.partition_indexes.is_empty());
    for marker in request.markers.iter().filter(has_partitions) {
        let mut topics = Vec::with_capacity(marker.topics.len());
        for topic in &marker.topics {
            let partitions = topic.partition_indexes.iter().map(|&partition_index| WritableTxnMarkerPartitionResult {
                partition_index,
                error_code: code(outcome(marker, topic.name, partition_index)),
                ..Default::default()
            });
            let partitions = partitions.collect();
            topics.push(WritableTxnMarkerTopicResult { name: topic.name, partitions, ..Default::default() });
        }
        markers.push(WritableTxnMarkerResult { producer_id: marker.producer_id, topics, ..Default::default() });
    }
    WriteTxnMarkersResponse { markers, ..Default::default() }
}

pub(super) fn refuse<'a>(request: &WriteTxnMarkersRequest<'a>, error: ErrorCode) -> WriteTxnMarkersResponse<'a> {
    respond(request, |_, _, _| Err(error))
}

pub(super) fn mentions<'a>(request: &WriteTxnMarkersRequest<'a>) -> Mentions<'a> {
    let topics = request.markers.iter().flat_map(|marker| &marker.topics);
    let partitions =
        topics.flat_map(|topic| topic.partition_indexes.iter().map(|&index| (TopicKey::Name(topic.name), index)));
    Mentions { partitions: partitions.collect(), ..Default::default() }
}
