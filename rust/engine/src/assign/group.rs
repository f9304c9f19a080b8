//! A group as assignors see it: topics, partitions and members by number, and the conversion of these numbers into an
//! assignment.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use monedula_protocol::java;

use super::racks::Racks;
use super::{Assignment, MemberAssignment, MemberSubscription, Topics};
use crate::TopicPartition;

/// The owner of each partition, by the partition's number in the group.
pub(super) type Owners = Vec<Option<usize>>;

/// The subscribed topics in the order of their names, and the members in an order that the assignor chose.
pub(super) struct Group<'a> {
    /// The members; a member's index is its number.
    pub(super) members: Vec<&'a MemberSubscription>,
    /// The members' numbers in the order in which they were given.
    pub(super) joined: Vec<usize>,
    /// The numbers of each topic's subscribers, ascending.
    pub(super) subscribers: Vec<Vec<usize>>,
    names: Vec<&'a Arc<str>>,
    /// The number of the first partition of each topic, and finally the number of all partitions.
    starts: Vec<usize>,
    /// The racks of each topic's partitions.
    racks: Vec<&'a [Vec<Arc<str>>]>,
}

impl<'a> Group<'a> {
    /// Members in the order of Java's range and round robin: static ones by instance id, then the others by member id.
    pub(super) fn static_first(topics: &'a Topics, members: &'a [MemberSubscription]) -> Self {
        Self::sorted(topics, members, |one, other| match (&one.instance_id, &other.instance_id) {
            (Some(one), Some(other)) => java::order(one, other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => java::order(&one.member_id, &other.member_id),
        })
    }

    /// Members in the order of their ids.
    pub(super) fn by_id(topics: &'a Topics, members: &'a [MemberSubscription]) -> Self {
        Self::sorted(topics, members, |one, other| java::order(&one.member_id, &other.member_id))
    }

    fn sorted(
        topics: &'a Topics,
        members: &'a [MemberSubscription],
        order: impl Fn(&MemberSubscription, &MemberSubscription) -> Ordering,
    ) -> Self {
        let mut places: Vec<_> = (0..members.len()).collect();
        places.sort_by(|&one, &other| order(&members[one], &members[other]));
        let mut joined = vec![0; members.len()];
        for (number, &place) in places.iter().enumerate() {
            joined[place] = number;
        }
        let members: Vec<_> = places.into_iter().map(|place| &members[place]).collect();
        let (names, subscribers): (Vec<_>, Vec<_>) = subscribers(topics, &members).into_iter().unzip();
        let mut starts = vec![0];
        let mut racks: Vec<&[Vec<Arc<str>>]> = Vec::new();
        for name in &names {
            racks.push(&topics[*name]);
            starts.push(starts[starts.len() - 1] + topics[*name].len());
        }
        Self { members, joined, subscribers, names, starts, racks }
    }

    pub(super) fn topic_count(&self) -> usize {
        self.names.len()
    }

    /// The number of partitions of all topics.
    pub(super) fn partition_count(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The numbers of a topic's partitions.
    pub(super) fn partitions(&self, topic: usize) -> Range<usize> {
        self.starts[topic]..self.starts[topic + 1]
    }

    pub(super) fn name(&self, topic: usize) -> &'a Arc<str> {
        self.names[topic]
    }

    pub(super) fn topic_of(&self, partition: usize) -> usize {
        self.starts.partition_point(|&start| start <= partition).saturating_sub(1)
    }

    /// The partition with this number.
    pub(super) fn named(&self, partition: usize) -> TopicPartition {
        let topic = self.topic_of(partition);
        let index = i32::try_from(partition - self.starts[topic]).unwrap_or(i32::MAX);
        TopicPartition::new(self.names[topic].clone(), index)
    }

    /// The number of a topic.
    pub(super) fn topic(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|known| (***known).cmp(name)).ok()
    }

    /// The number of a partition, if it exists.
    pub(super) fn partition(&self, partition: &TopicPartition) -> Option<usize> {
        let range = self.partitions(self.topic(&partition.topic)?);
        let number = range.start + usize::try_from(partition.partition).ok()?;
        range.contains(&number).then_some(number)
    }

    pub(super) fn subscribes(&self, member: usize, topic: usize) -> bool {
        self.subscribers[topic].binary_search(&member).is_ok()
    }

    /// The racks of members and partitions; `None` if no member has a rack.
    pub(super) fn racks(&self) -> Option<Racks<'a>> {
        Racks::new(&self.members, self.racks.iter().copied().flatten())
    }

    /// The assignment of each member, in the order of topics and partitions.
    pub(super) fn assignment(&self, owners: &Owners) -> Assignment {
        let mut partitions = vec![Vec::new(); self.members.len()];
        for (topic, name) in self.names.iter().enumerate() {
            for (index, number) in (0..).zip(self.partitions(topic)) {
                if let Some(owner) = owners[number] {
                    partitions[owner].push(TopicPartition::new((*name).clone(), index));
                }
            }
        }
        let members = self.members.iter().map(|member| member.member_id.clone());
        members.zip(partitions.into_iter().map(|partitions| MemberAssignment { partitions, user_data: None })).collect()
    }
}

/// The subscribers of each topic, without topics that have none.
fn subscribers<'a>(topics: &'a Topics, members: &[&MemberSubscription]) -> Vec<(&'a Arc<str>, Vec<usize>)> {
    let mut subscribed: Vec<(&Arc<str>, Vec<usize>)> = topics.keys().map(|name| (name, Vec::new())).collect();
    // Many members subscribe to the same topics: if the names equal those of the previous member, so do the topic
    // numbers.
    let mut last: (&[Arc<str>], Vec<Option<usize>>) = (&[], Vec::new());
    for (member, subscription) in members.iter().enumerate() {
        let mut numbers = Vec::with_capacity(subscription.topics.len());
        for (place, topic) in subscription.topics.iter().enumerate() {
            let same = last.0.get(place).is_some_and(|last| Arc::ptr_eq(last, topic));
            let find = || subscribed.binary_search_by(|(name, _)| (**name).cmp(topic)).ok();
            numbers.push(if same { last.1[place] } else { find() });
        }
        for &topic in numbers.iter().flatten() {
            let subscribers = &mut subscribed[topic].1;
            // A member may name a topic twice.
            if subscribers.last() != Some(&member) {
                subscribers.push(member);
            }
        }
        last = (&subscription.topics, numbers);
    }
    subscribed.retain(|(_, subscribers)| !subscribers.is_empty());
    subscribed
}
