//! DeleteShareGroupOffsets, version 0 (KIP-932): removes topics from a share group without members.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_share_group_offsets::{
    DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponseTopic,
};
use monedula_protocol::types::Uuid;

use super::{ApiError, Handled};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DeleteShareGroupOffsetsRequest<'_>) -> Handled {
    core.authorize(call, Operation::Delete, Resource::Group(request.group_id))?;
    let found: Vec<Result<Uuid, ErrorCode>> = request
        .topics
        .iter()
        .map(|topic| {
            core.authorize(call, Operation::Read, Resource::Topic(topic.topic_name))?;
            core.topics.get(topic.topic_name).map(|found| found.id).ok_or(ErrorCode::UnknownTopicOrPartition)
        })
        .collect();
    let ids: Vec<Uuid> = found.iter().flatten().copied().collect();
    let deleted = core.delete_share_offsets(call.node, request.group_id, &ids);
    let had = |id: Uuid| deleted.as_ref().is_ok_and(|gone| gone.contains_key(&id));
    let responses = request.topics.iter().zip(&found).map(|(topic, found)| {
        let outcome = found.and_then(|id| if had(id) { Ok(id) } else { Err(ErrorCode::UnknownTopicOrPartition) });
        DeleteShareGroupOffsetsResponseTopic {
            topic_name: topic.topic_name,
            topic_id: outcome.unwrap_or_default(),
            error_code: outcome.err().map_or(0, ErrorCode::code),
            error_message: outcome.err().map(ErrorCode::message),
            ..Default::default()
        }
    });
    Ok(call.answer::<DeleteShareGroupOffsetsRequest<'_>>(&match &deleted {
        Ok(_) => DeleteShareGroupOffsetsResponse { responses: responses.collect(), ..Default::default() },
        Err(ApiError { code, message }) => DeleteShareGroupOffsetsResponse {
            error_code: code.code(),
            error_message: message.as_deref(),
            ..Default::default()
        },
    }))
}
