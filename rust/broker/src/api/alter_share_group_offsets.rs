//! AlterShareGroupOffsets, version 0 (KIP-932): sets the start offsets of a share group without members. What was in
//! flight is forgotten.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
};
use monedula_protocol::types::Uuid;

use super::{ApiError, Handled};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &AlterShareGroupOffsetsRequest<'_>) -> Handled {
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let found: Vec<Result<Uuid, ErrorCode>> = request
        .topics
        .iter()
        .map(|topic| {
            core.authorize(call, Operation::Read, Resource::Topic(topic.topic_name))?;
            core.topics.get(topic.topic_name).map(|found| found.id).ok_or(ErrorCode::UnknownTopicOrPartition)
        })
        .collect();
    let mut offsets = Vec::new();
    let mut responses = Vec::with_capacity(request.topics.len());
    for (topic, found) in request.topics.iter().zip(&found) {
        let exists = |index: i32| core.topics.partition(topic.topic_name, index).is_some();
        let partitions = topic.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            let error = match found {
                Ok(_) if !exists(index) => Some(ErrorCode::UnknownTopicOrPartition),
                Ok(id) => {
                    offsets.push((*id, index, partition.start_offset));
                    None
                }
                Err(error) => Some(*error),
            };
            AlterShareGroupOffsetsResponsePartition {
                partition_index: index,
                error_code: error.map_or(0, ErrorCode::code),
                error_message: error.map(ErrorCode::message),
                ..Default::default()
            }
        });
        responses.push(AlterShareGroupOffsetsResponseTopic {
            partitions: partitions.collect(),
            topic_name: topic.topic_name,
            topic_id: found.unwrap_or_default(),
            ..Default::default()
        });
    }
    let altered = core.alter_share_offsets(call.node, request.group_id, &offsets);
    Ok(call.answer::<AlterShareGroupOffsetsRequest<'_>>(&match &altered {
        Ok(()) => AlterShareGroupOffsetsResponse { responses, ..Default::default() },
        Err(ApiError { code, message }) => AlterShareGroupOffsetsResponse {
            error_code: code.code(),
            error_message: message.as_deref(),
            ..Default::default()
        },
    }))
}
