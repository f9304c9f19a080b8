//! Range: each member gets a contiguous range of the partitions of each topic.
//!
//! Topics with the same number of partitions and the same subscribers are split the same way (co-partitioned):
//! partition 3 of all of them has the same owner. Racks (KIP-881) count only as far as that and the balance of each
//! topic allow.

use std::collections::BTreeMap;

use super::group::{Group, Owners};
use super::racks::Racks;
use super::{AssignError, Assignment, Assignor, MemberSubscription, Protocol, Topics};

/// Java's `RangeAssignor`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range;

impl Assignor for Range {
    fn name(&self) -> &str {
        "range"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Eager
    }

    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        let group = Group::static_first(topics, members);
        let mut owners = vec![None; group.partition_count()];
        let topics = 0..group.topic_count();
        let mut shares: Vec<_> = topics.filter_map(|topic| Shares::new(&group, topic)).collect();
        if let Some(racks) = group.racks() {
            match_racks(&racks, &mut shares, &mut owners);
        }
        for share in &mut shares {
            share.fill(&mut owners);
        }
        Ok(group.assignment(&owners))
    }
}

/// The distribution of one topic to its subscribers.
struct Shares<'g> {
    partitions: std::ops::Range<usize>,
    members: &'g [usize],
    /// The number of partitions of each of `members`.
    counts: Vec<usize>,
    /// The least number of partitions of each member.
    least: usize,
    /// The number of members that may still get one more than that.
    extra: usize,
}

impl<'g> Shares<'g> {
    /// The distribution of a topic; `None` if it has no partitions.
    fn new(group: &'g Group<'_>, topic: usize) -> Option<Self> {
        let (partitions, members) = (group.partitions(topic), &*group.subscribers[topic]);
        if partitions.is_empty() {
            return None;
        }
        let (least, extra) = (partitions.len() / members.len(), partitions.len() % members.len());
        Some(Self { partitions, members, counts: vec![0; members.len()], least, extra })
    }

    /// The number of partitions that the member at `place` may still get.
    fn room(&self, place: usize) -> usize {
        (self.least + usize::from(self.extra > 0)).saturating_sub(self.counts[place])
    }

    fn give(&mut self, place: usize, partition: usize, owners: &mut Owners) {
        owners[partition] = Some(self.members[place]);
        self.counts[place] += 1;
        if self.counts[place] > self.least {
            self.extra -= 1;
        }
    }

    /// Gives each member partitions with a replica in its rack, in order.
    fn fill_near(&mut self, racks: &Racks<'_>, owners: &mut Owners) {
        for place in 0..self.members.len() {
            let (member, mut room) = (self.members[place], self.room(place));
            for partition in self.partitions.clone() {
                if room == 0 {
                    break;
                }
                if owners[partition].is_none() && !racks.mismatch(member, partition) {
                    self.give(place, partition, owners);
                    room -= 1;
                }
            }
        }
    }

    /// Gives the remaining partitions to members with room, in contiguous ranges.
    fn fill(&mut self, owners: &mut Owners) {
        let mut left =
            self.partitions.clone().filter(|&partition| owners[partition].is_none()).collect::<Vec<_>>().into_iter();
        for place in 0..self.members.len() {
            for partition in left.by_ref().take(self.room(place)) {
                self.give(place, partition, owners);
            }
        }
    }
}

/// Gives members partitions with replicas in their racks. Co-partitioned topics stay co-partitioned, whatever their
/// racks.
fn match_racks(racks: &Racks<'_>, shares: &mut [Shares<'_>], owners: &mut Owners) {
    let matter = |share: &Shares<'_>| racks.matter(share.members.iter().copied(), share.partitions.clone());
    if !shares.iter().any(matter) {
        return;
    }
    let mut alike: BTreeMap<(&[usize], usize), Vec<&mut Shares<'_>>> = BTreeMap::new();
    for share in shares {
        // If no member has a rack, there is nothing to match.
        if share.members.iter().any(|&member| racks.of_member(member).is_some()) {
            alike.entry((share.members, share.partitions.len())).or_default().push(share);
        }
    }
    for ((members, partitions), mut topics) in alike {
        match &mut *topics {
            [only] if matter(only) => only.fill_near(racks, owners),
            [_] => {}
            together => fill_together(racks, members, partitions, together, owners),
        }
    }
}

/// Gives the partitions with the same index in all these topics to the first member that has room for them and a
/// replica of each in its rack.
fn fill_together(
    racks: &Racks<'_>,
    members: &[usize],
    partitions: usize,
    topics: &mut [&mut Shares<'_>],
    owners: &mut Owners,
) {
    for index in 0..partitions {
        let near = |place: &usize| {
            let fits = |share: &&mut Shares<'_>| {
                share.room(*place) > 0 && !racks.mismatch(members[*place], share.partitions.start + index)
            };
            topics.iter().all(fits)
        };
        if let Some(place) = (0..members.len()).find(near) {
            for share in &mut *topics {
                share.give(place, share.partitions.start + index, owners);
            }
        }
    }
}
