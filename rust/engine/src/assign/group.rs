//! A group as assignors see it: topics, partitions and members by number, and what those numbers make of an assignment.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use monedula_protocol::java;

use super::racks::Racks;
use super::{Assignment, MemberAssignment, Subscription, Topics};
use crate::TopicPartition;

/// Who owns each partition, by the partition's number in the group.
pub(super) type Owners = Vec<Option<usize>>;

/// Topics in the order of their names, and members in an order that the assignor chose.
pub(super) struct Group<'a> {
    /// The members; their place is their number.
    pub(super) members: Vec<&'a Subscription>,
    /// Their numbers in the order in which they were given.
    pub(super) joined: Vec<usize>,
    /// For each topic the numbers of those that subscribe to it, ascending.
    pub(super) subscribers: Vec<Vec<usize>>,
    names: Vec<&'a Arc<str>>,
    /// Where each topic's partitions begin, and where the last ends.
    starts: Vec<usize>,
    topics: &'a Topics,
}

impl<'a> Group<'a> {
    /// Members in the order of Java's range and round robin: static ones by instance id, then the others by member id.
    pub(super) fn static_first(topics: &'a Topics, members: &'a [Subscription]) -> Self {
        Self::sorted(topics, members, |one, other| match (&one.instance_id, &other.instance_id) {
            (Some(one), Some(other)) => java::order(one, other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => java::order(&one.member_id, &other.member_id),
        })
    }

    /// Members in the order of their ids.
    pub(super) fn by_id(topics: &'a Topics, members: &'a [Subscription]) -> Self {
        Self::sorted(topics, members, |one, other| java::order(&one.member_id, &other.member_id))
    }

    fn sorted(
        topics: &'a Topics,
        members: &'a [Subscription],
        order: impl Fn(&Subscription, &Subscription) -> Ordering,
    ) -> Self {
        let mut places: Vec<_> = (0..members.len()).collect();
        places.sort_by(|&one, &other| order(&members[one], &members[other]));
        let mut joined = vec![0; members.len()];
        for (number, &place) in places.iter().enumerate() {
            joined[place] = number;
        }
        let members: Vec<_> = places.into_iter().map(|place| &members[place]).collect();
        let names: Vec<_> = topics.keys().collect();
        let numbers: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (&***name, number)).collect();
        let mut subscribers: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
        for (number, member) in members.iter().enumerate() {
            for topic in member.topics.iter().filter_map(|topic| numbers.get(&**topic)) {
                // A topic named twice is subscribed to once.
                if subscribers[*topic].last() != Some(&number) {
                    subscribers[*topic].push(number);
                }
            }
        }
        let mut starts = vec![0];
        for partitions in topics.values() {
            starts.push(starts[starts.len() - 1] + partitions.len());
        }
        Self { members, joined, subscribers, names, starts, topics }
    }

    /// How many topics there are.
    pub(super) fn topic_count(&self) -> usize {
        self.names.len()
    }

    /// How many partitions all topics have.
    pub(super) fn partition_count(&self) -> usize {
        self.starts[self.names.len()]
    }

    /// The numbers of a topic's partitions.
    pub(super) fn partitions(&self, topic: usize) -> Range<usize> {
        self.starts[topic]..self.starts[topic + 1]
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

    /// Whether a member subscribes to a topic.
    pub(super) fn subscribes(&self, member: usize, topic: usize) -> bool {
        self.subscribers[topic].binary_search(&member).is_ok()
    }

    /// Racks of members and partitions, unless no member has one.
    pub(super) fn racks(&self) -> Option<Racks<'a>> {
        Racks::new(&self.members, self.topics.values().flatten())
    }

    /// What each member gets, in the order of topics and partitions.
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
