//! The quality of an assignment: how even it is, and how many partitions members kept.

use std::collections::BTreeMap;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{Assignment, MemberSubscription};
use monedula_protocol::api::Message;
use monedula_protocol::messages::consumer_protocol::StickyUserData;
use monedula_protocol::wire::Reader;

/// The partitions that a member claims, and their generation.
pub(crate) fn had(assignor: &str, member: &MemberSubscription) -> (i32, Vec<TopicPartition>) {
    let bytes = member.user_data.as_deref().unwrap_or_default();
    if assignor == "cooperative-sticky" {
        let told = bytes.try_into().map_or(-1, i32::from_be_bytes);
        return (if member.generation >= 0 { member.generation } else { told }, member.owned.clone());
    }
    let read = |version| StickyUserData::decode(&mut Reader::new(bytes), version).ok();
    let Some(data) = read(1).or_else(|| read(0)) else { return (-1, Vec::new()) };
    let topics = data.previous_assignment.iter();
    let partitions =
        topics.flat_map(|topic| topic.partitions.iter().map(|&index| TopicPartition::new(topic.topic, index)));
    (data.generation, partitions.collect())
}

/// The last owner of each partition, without partitions that two members claim.
pub(crate) fn last_owners(assignor: &str, members: &[MemberSubscription]) -> BTreeMap<TopicPartition, String> {
    let mut claims: BTreeMap<TopicPartition, Vec<(i32, String)>> = BTreeMap::new();
    for member in members {
        let (generation, partitions) = had(assignor, member);
        for partition in partitions {
            claims.entry(partition).or_default().push((generation, member.member_id.clone()));
        }
    }
    let settle = |(partition, claims): (TopicPartition, Vec<(i32, String)>)| {
        let newest = claims.iter().map(|(generation, _)| *generation).max()?;
        let mut newest = claims.into_iter().filter(|(generation, _)| *generation == newest);
        let (_, owner) = newest.next()?;
        newest.next().is_none().then_some((partition, owner))
    };
    claims.into_iter().filter_map(settle).collect()
}

/// The sum of the differences of all pairs of members: 0 is perfectly even.
pub(crate) fn unevenness(assignment: &Assignment) -> usize {
    let loads: Vec<_> = assignment.values().map(|assigned| assigned.partitions.len()).collect();
    let pairs = loads.iter().enumerate().flat_map(|(place, one)| loads[..place].iter().map(move |other| (one, other)));
    pairs.map(|(one, other)| one.abs_diff(*other)).sum()
}

/// How many partitions stay with their owner.
pub(crate) fn kept(assignment: &Assignment, last: &BTreeMap<TopicPartition, String>) -> usize {
    let stays = |member: &String, partition: &&TopicPartition| last.get(*partition) == Some(member);
    assignment
        .iter()
        .map(|(member, assigned)| assigned.partitions.iter().filter(|one| stays(member, one)).count())
        .sum()
}
