//! Checks of the partitions of OffsetCommit, TxnOffsetCommit and OffsetDelete, and commits of the first two.

use std::collections::HashMap;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::core::Core;
use crate::groups::NewOffset;
use crate::request::Call;
use crate::security::{Operation, Resource};

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

pub(super) type NameAndId<'a> = (&'a str, Uuid);

pub(super) type PartitionErrors<'a> = (NameAndId<'a>, Vec<(i32, ErrorCode)>);

/// The topics of a request that commits offsets, each with the offsets of its partitions.
pub(super) type TopicsToCommit<'a> = Vec<(NameAndId<'a>, Vec<NewOffset<'a>>)>;

/// Conversions of the messages of OffsetCommit and TxnOffsetCommit, whose fields have the same names.
macro_rules! mapping {
    ($request:ident, $response:ident, $response_topic:ident, $response_partition:ident) => {
        fn topics<'a>(request: &$request<'a>) -> group_offsets::TopicsToCommit<'a> {
            let topics = request.topics.iter().map(|topic| {
                let offsets = topic.partitions.iter().map(|partition| NewOffset {
                    topic: topic.name,
                    partition: partition.partition_index,
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata,
                });
                ((topic.name, topic.topic_id), offsets.collect())
            });
            topics.collect()
        }

        fn response<'a>(topics: Vec<group_offsets::PartitionErrors<'a>>) -> $response<'a> {
            let topics = topics.into_iter().map(|((name, topic_id), partitions)| {
                let partitions = partitions.into_iter().map(|(partition_index, error)| $response_partition {
                    partition_index,
                    error_code: error.code(),
                    ..Default::default()
                });
                $response_topic { name, topic_id, partitions: partitions.collect(), ..Default::default() }
            });
            $response { topics: topics.collect(), ..Default::default() }
        }

        pub(super) fn refuse<'a>(request: &$request<'a>, error: ErrorCode) -> $response<'a> {
            let topics = topics(request)
                .into_iter()
                .map(|(key, offsets)| (key, offsets.into_iter().map(|offset| (offset.partition, error)).collect()));
            response(topics.collect())
        }
    };
}
pub(super) use mapping;

/// Commits the offsets of a request whose topics have ids or names (`by_id`). `commit` is given those that have no
/// error before the group is asked, if there are any, and returns the error of each, or one for all.
pub(super) fn commit<'a>(
    core: &mut Core,
    call: &Call<'_>,
    topics: TopicsToCommit<'a>,
    by_id: bool,
    commit: impl FnOnce(&mut Core, Vec<NewOffset<'_>>) -> Result<Vec<ErrorCode>, ErrorCode>,
) -> Vec<PartitionErrors<'a>> {
    // No topic has a name if none has the id.
    let name = |&((name, id), _): &(NameAndId<'a>, _)| if by_id { core.topics.name_of(id) } else { Some(name.into()) };
    let names: Vec<Option<Arc<str>>> = topics.iter().map(name).collect();
    let mut checked = Vec::with_capacity(topics.len());
    // The offsets without an error go to the group, in this order.
    let mut offsets = Vec::new();
    for ((key, asked), name) in topics.iter().zip(&names) {
        let topic = CheckedTopic::new(core, call, (*key, name.as_deref()), asked.iter().map(|offset| offset.partition));
        if let Some(name) = name {
            offsets.extend(topic.asked().map(|place| NewOffset { topic: name, ..asked[place] }));
        }
        checked.push(topic);
    }
    let count = offsets.len();
    // Kafka does not check the group if no offset is left to commit.
    let committed = match count {
        0 => Vec::new(),
        _ => commit(core, offsets).unwrap_or_else(|error| vec![error; count]),
    };
    merge(&checked, &committed)
}

/// A topic of a request, checked before the group is asked.
struct CheckedTopic<'a> {
    key: NameAndId<'a>,
    /// No topic has its id or name, or the client may not read it.
    is_refused: bool,
    partitions: Vec<(i32, ErrorCode)>,
}

impl<'a> CheckedTopic<'a> {
    fn new(
        core: &mut Core,
        call: &Call<'_>,
        (key, name): (NameAndId<'a>, Option<&str>),
        partitions: impl Iterator<Item = i32>,
    ) -> Self {
        let is_refused = name.is_none_or(|name| {
            core.authorize(call, Operation::Read, Resource::Topic(name)).is_err() || core.topics.get(name).is_none()
        });
        let partitions = partitions.map(|index| (index, check(core, call, name, index))).collect();
        Self { key, is_refused, partitions }
    }

    /// The places of the partitions that the group is asked about.
    fn asked(&self) -> impl Iterator<Item = usize> {
        let places = self.partitions.iter().enumerate();
        places.filter(|(_, (_, error))| *error == ErrorCode::None).map(|(place, _)| place)
    }
}

/// The topics of a response as Kafka puts them together: first those that were refused before the group was asked, each
/// once, also without partitions; then the others, which are added to those. If nothing was refused before, the others
/// are as in the request, even if a topic is there twice.
fn merge<'a>(checked: &[CheckedTopic<'a>], committed: &[ErrorCode]) -> Vec<PartitionErrors<'a>> {
    let mut topics: Vec<PartitionErrors<'a>> = Vec::with_capacity(checked.len());
    let mut places: HashMap<NameAndId<'a>, usize> = HashMap::new();
    let mut add = |key: NameAndId<'a>, partitions: Vec<_>, merges: bool| match places.get(&key).filter(|_| merges) {
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
