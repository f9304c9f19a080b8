//! What OffsetCommit, TxnOffsetCommit and OffsetDelete share: how a topic is named, and whether one of its partitions may
//! have an offset of a group.

use std::collections::HashMap;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::core::Core;
use crate::request::Call;
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

/// A topic of a request by name and id.
pub(super) type Key<'a> = (&'a str, Uuid);

/// A topic of a request, checked before the group is asked.
pub(super) struct Checked<'a> {
    pub(super) key: Key<'a>,
    /// No topic has its id or name, or the client may not read it.
    is_refused: bool,
    /// The partitions, each with its error.
    partitions: Vec<(i32, ErrorCode)>,
}

impl<'a> Checked<'a> {
    /// Checks a topic, and each of its partitions.
    pub(super) fn new(
        core: &mut Core,
        call: &Call<'_>,
        (key, name): (Key<'a>, Option<&str>),
        partitions: impl Iterator<Item = i32>,
    ) -> Self {
        let is_refused = name.is_none_or(|name| {
            core.authorize(call, Operation::Read, Resource::Topic(name)).is_err() || core.topics.get(name).is_none()
        });
        let partitions = partitions.map(|index| (index, check(core, call, name, index))).collect();
        Self { key, is_refused, partitions }
    }

    /// The places of the partitions that the group is asked about.
    pub(super) fn asked(&self) -> impl Iterator<Item = usize> {
        let places = self.partitions.iter().enumerate();
        places.filter(|(_, (_, error))| *error == ErrorCode::None).map(|(place, _)| place)
    }
}

/// The topics of a response as Kafka puts them together: first those that were refused before the group was asked, each
/// once, also without partitions; then the others, which are added to those. If nothing was refused before, the others
/// are as in the request, even if a topic is there twice.
pub(super) fn merge<'a>(checked: &[Checked<'a>], committed: &[ErrorCode]) -> Vec<(Key<'a>, Vec<(i32, ErrorCode)>)> {
    let mut topics: Vec<(Key<'a>, Vec<(i32, ErrorCode)>)> = Vec::with_capacity(checked.len());
    let mut places: HashMap<Key<'a>, usize> = HashMap::new();
    let mut add =
        |key: Key<'a>, partitions: Vec<(i32, ErrorCode)>, merges: bool| match places.get(&key).filter(|_| merges) {
            Some(&place) => topics[place].1.extend(partitions),
            None => {
                places.insert(key, topics.len());
                topics.push((key, partitions));
            }
        };
    let mut any_refused = false;
    for topic in checked {
        let refused: Vec<_> = topic.partitions.iter().filter(|(_, error)| *error != ErrorCode::None).copied().collect();
        if topic.is_refused || !refused.is_empty() {
            any_refused = true;
            add(topic.key, refused, true);
        }
    }
    let mut committed = committed.iter().copied();
    for topic in checked {
        let mut outcome = || committed.next().unwrap_or(ErrorCode::UnknownServerError);
        let asked: Vec<_> = topic.asked().map(|place| (topic.partitions[place].0, outcome())).collect();
        if !asked.is_empty() {
            add(topic.key, asked, any_refused);
        }
    }
    topics
}
