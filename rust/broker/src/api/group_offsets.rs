//! What OffsetCommit, TxnOffsetCommit and OffsetDelete share: how a topic is named, and whether one of its partitions may
//! have an offset of a group.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::core::{Call, Core};
use crate::security::{Operation, Resource};

/// The name of a topic, which a request has by id or by name; `None` if no topic has the id.
pub(super) fn name_of(core: &Core, name: &str, id: Uuid, by_id: bool) -> Option<Arc<str>> {
    if by_id { core.topics.name_of(id) } else { Some(name.into()) }
}

/// The error of a partition before the group is asked.
pub(super) fn check(core: &mut Core, call: &Call<'_>, topic: Option<&str>, partition: i32) -> ErrorCode {
    let Some(topic) = topic else { return ErrorCode::UnknownTopicId };
    if let Err(error) = core.authorize(call, Operation::Read, Resource::Topic(topic)) {
        return error;
    }
    if let Some(error) = core.faults.partition_error(call, topic, partition) {
        return error;
    }
    match core.topics.partition(topic, partition) {
        Some(_) => ErrorCode::None,
        None => ErrorCode::UnknownTopicOrPartition,
    }
}
