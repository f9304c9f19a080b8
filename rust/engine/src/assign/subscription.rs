//! Encoding of subscriptions and assignments, which members exchange through the coordinator, and the leader's whole
//! computation from bytes to bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error::WireError;
use monedula_protocol::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, LAST_VERSION, TopicPartition as WirePartitions,
};

use super::{AssignError, Assignor, LastAssignment, MemberAssignment, MemberSubscription, Protocol, Topics};
use crate::TopicPartition;

/// Encodes a member's subscription for JoinGroup. `generation` is the member's generation, -1 for none. `owned` is
/// encoded under the cooperative protocol only: an eager member has revoked everything by then.
///
/// # Errors
/// If a field cannot be encoded, such as user data of more than 2 GiB.
pub fn subscription_bytes(
    assignor: &dyn Assignor,
    topics: &BTreeSet<Arc<str>>,
    owned: &BTreeSet<TopicPartition>,
    generation: i32,
    last: &LastAssignment,
    rack: Option<&str>,
) -> Result<Vec<u8>, WireError> {
    let user_data = assignor.user_data(topics, last);
    ConsumerProtocolSubscription {
        topics: topics.iter().map(|topic| &**topic).collect(),
        user_data: user_data.as_deref(),
        owned_partitions: by_topic(owned),
        generation_id: generation,
        rack_id: rack,
        ..Default::default()
    }
    .write(LAST_VERSION)
}

/// Replaces the user data in an encoded subscription.
///
/// # Errors
/// If the bytes are no subscription, or a field cannot be encoded.
pub fn with_user_data(bytes: &[u8], user_data: Option<&[u8]>) -> Result<Vec<u8>, WireError> {
    let mut subscription = ConsumerProtocolSubscription::read(bytes)?;
    subscription.user_data = user_data;
    subscription.write(LAST_VERSION)
}

/// Decodes the subscriptions of a whole group: of each member its id, its static id and the bytes.
///
/// # Errors
/// If the bytes are no subscription.
pub fn read_subscriptions(
    members: &[(String, Option<String>, Vec<u8>)],
) -> Result<Vec<MemberSubscription>, AssignError> {
    let mut names = Names::default();
    let read = members.iter().map(|(member_id, instance_id, bytes)| {
        let read = ConsumerProtocolSubscription::read(bytes)
            .map_err(|error| AssignError::Subscription { member_id: member_id.clone(), reason: error.to_string() })?;
        Ok(MemberSubscription {
            member_id: member_id.clone(),
            instance_id: instance_id.clone(),
            topics: names.sorted(&read.topics),
            owned: flat(&read.owned_partitions),
            generation: read.generation_id,
            rack: read.rack_id.map(str::to_owned),
            user_data: read.user_data.map(<[u8]>::to_vec),
        })
    });
    read.collect()
}

/// The topic names of a whole group, each stored once: a thousand members may subscribe to a thousand topics each.
#[derive(Default)]
struct Names {
    known: BTreeSet<Arc<str>>,
    /// The previous member's topics, which are often the same as the next one's.
    last: Vec<Arc<str>>,
}

impl Names {
    /// The given topics, sorted and without duplicates.
    fn sorted(&mut self, names: &[&str]) -> Vec<Arc<str>> {
        let mut topics = Vec::with_capacity(names.len());
        for (place, &name) in names.iter().enumerate() {
            match self.last.get(place) {
                Some(last) if **last == *name => topics.push(last.clone()),
                _ => topics.push(self.keep(name)),
            }
        }
        if !topics.is_sorted_by(|one, next| one < next) {
            topics.sort();
            topics.dedup();
        }
        self.last.clone_from(&topics);
        topics
    }

    fn keep(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.known.insert(name.clone());
        name
    }
}

/// Encodes one member's assignment for SyncGroup.
///
/// # Errors
/// If a field cannot be encoded.
pub fn assignment_bytes(assignment: &MemberAssignment) -> Result<Vec<u8>, WireError> {
    let partitions = assignment.partitions.iter().cloned().collect();
    ConsumerProtocolAssignment {
        assigned_partitions: by_topic(&partitions),
        user_data: assignment.user_data.as_deref(),
        ..Default::default()
    }
    .write(LAST_VERSION)
}

/// Decodes a member's assignment. No bytes at all mean an empty one: the coordinator sends that to a member that the
/// leader left out.
///
/// # Errors
/// If the bytes are no assignment.
pub fn read_assignment(bytes: &[u8]) -> Result<MemberAssignment, WireError> {
    if bytes.is_empty() {
        return Ok(MemberAssignment::default());
    }
    let read = ConsumerProtocolAssignment::read(bytes)?;
    Ok(MemberAssignment { partitions: flat(&read.assigned_partitions), user_data: read.user_data.map(<[u8]>::to_vec) })
}

/// Computes the assignments of all members from their subscriptions. `members` are member id, static id and
/// subscription; the result has member id and assignment.
///
/// # Errors
/// If a subscription cannot be read, the assignor fails, or its assignment is invalid: a partition assigned twice, or
/// to a member that is not in the group, or, under the cooperative protocol, a partition that its owner has not revoked
/// yet.
pub fn perform(
    assignor: &dyn Assignor,
    topics: &Topics,
    members: &[(String, Option<String>, Vec<u8>)],
) -> Result<Vec<(String, Vec<u8>)>, AssignError> {
    let subscriptions = read_subscriptions(members)?;
    let assignment = assignor.assign(topics, &subscriptions)?;
    check(assignor, &subscriptions, &assignment)?;
    let nothing = MemberAssignment::default();
    let bytes = subscriptions.iter().map(|member| {
        let assigned = assignment.get(&member.member_id).unwrap_or(&nothing);
        let bytes = assignment_bytes(assigned)
            .map_err(|error| AssignError::Failed { assignor: assignor.name().into(), reason: error.to_string() })?;
        Ok((member.member_id.clone(), bytes))
    });
    bytes.collect()
}

fn check(
    assignor: &dyn Assignor,
    members: &[MemberSubscription],
    assignment: &BTreeMap<String, MemberAssignment>,
) -> Result<(), AssignError> {
    let invalid = |what: String| Err(AssignError::Invalid { assignor: assignor.name().into(), what });
    let known: BTreeSet<&str> = members.iter().map(|member| &*member.member_id).collect();
    let mut owners: BTreeMap<&TopicPartition, &str> = BTreeMap::new();
    for (member, assigned) in assignment {
        if !known.contains(&**member) {
            return invalid(format!("assigned partitions to {member}, which is no member of the group"));
        }
        for partition in &assigned.partitions {
            if let Some(other) = owners.insert(partition, member) {
                return invalid(format!("assigned {partition} to both {other} and {member}"));
            }
        }
    }
    if assignor.protocol() == Protocol::Eager {
        return Ok(());
    }
    // A partition may move only after its owner has revoked it. Owners of an older generation do not count.
    let newest = members.iter().map(|member| member.generation).max().unwrap_or(-1);
    let claims = members.iter().flat_map(|member| member.owned.iter().map(|partition| (partition, &*member.member_id)));
    let claims: BTreeSet<_> = claims.collect();
    for member in members.iter().filter(|member| member.generation == newest) {
        for partition in &member.owned {
            // If several members report it as owned, it may stay with any of them.
            let moved = |owner: &&str| *owner != member.member_id && !claims.contains(&(partition, *owner));
            if owners.get(partition).is_some_and(moved) {
                return invalid(format!("moved {partition} away from {} before it was revoked", member.member_id));
            }
        }
    }
    Ok(())
}

/// All topics that these members subscribe to: the leader needs metadata of them.
///
/// # Errors
/// If a subscription cannot be read.
pub fn subscribed_topics(members: &[(String, Option<String>, Vec<u8>)]) -> Result<BTreeSet<Arc<str>>, AssignError> {
    Ok(read_subscriptions(members)?.into_iter().flat_map(|member| member.topics).collect())
}

pub(super) fn by_topic(partitions: &BTreeSet<TopicPartition>) -> Vec<WirePartitions<'_>> {
    let mut topics: Vec<WirePartitions<'_>> = Vec::new();
    for partition in partitions {
        match topics.last_mut().filter(|last| last.topic == &*partition.topic) {
            Some(last) => last.partitions.push(partition.partition),
            None => topics.push(WirePartitions {
                topic: &partition.topic,
                partitions: vec![partition.partition],
                ..Default::default()
            }),
        }
    }
    topics
}

pub(super) fn flat(topics: &[WirePartitions<'_>]) -> Vec<TopicPartition> {
    let mut partitions = Vec::new();
    for topic in topics {
        let name: Arc<str> = topic.topic.into();
        partitions.extend(topic.partitions.iter().map(|&index| TopicPartition::new(name.clone(), index)));
    }
    partitions
}
