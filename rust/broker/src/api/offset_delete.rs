//! OffsetDelete, version 0 (KIP-496): deletes committed offsets of topics that no member of the group subscribes to.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

use super::{Handled, group_offsets};
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &OffsetDeleteRequest<'_>) -> Handled {
    core.authorize(call, Operation::Delete, Resource::Group(request.group_id))?;
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let (mut refused, mut existing) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let index = partition.partition_index;
            match group_offsets::check(core, call, Some(topic.name), index) {
                ErrorCode::None => partitions.push(index),
                error => add(&mut refused, topic.name, index, error),
            }
        }
        if !partitions.is_empty() {
            existing.push((topic.name, partitions));
        }
    }
    let outcomes = core.delete_offsets(call.node, request.group_id, &existing)?;
    for ((name, partitions), outcome) in existing.into_iter().zip(outcomes) {
        partitions.into_iter().for_each(|partition| add(&mut refused, name, partition, outcome));
    }
    Ok(call.answer::<OffsetDeleteRequest<'_>>(&OffsetDeleteResponse { topics: refused, ..Default::default() }))
}

fn add<'a>(topics: &mut Vec<OffsetDeleteResponseTopic<'a>>, name: &'a str, partition_index: i32, error: ErrorCode) {
    let partition = OffsetDeleteResponsePartition { partition_index, error_code: error.code(), ..Default::default() };
    match topics.iter_mut().find(|known| known.name == name) {
        Some(known) => known.partitions.push(partition),
        None => topics.push(OffsetDeleteResponseTopic { name, partitions: vec![partition], ..Default::default() }),
    }
}

pub(super) fn mentions<'a>(request: &OffsetDeleteRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (TopicKey::Name(topic.name), partition.partition_index))
    });
    Mentions { groups: vec![request.group_id], partitions: partitions.collect(), ..Default::default() }
}
