//! The racks of members and replicas: which members have a replica of a partition in their rack (KIP-881).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::MemberSubscription;

/// The racks, by number, of the members of a group and of its partitions' replicas.
pub(super) struct Racks<'a> {
    members: Vec<Option<u32>>,
    partitions: Vec<Vec<u32>>,
    /// The number of members in each rack.
    sizes: BTreeMap<u32, usize>,
    numbers: BTreeMap<&'a str, u32>,
}

impl<'a> Racks<'a> {
    /// The racks of these members and partitions. `None` if no member has a rack.
    pub(super) fn new(
        members: &[&'a MemberSubscription],
        partitions: impl Iterator<Item = &'a Vec<Arc<str>>>,
    ) -> Option<Self> {
        let mut racks =
            Self { members: Vec::new(), partitions: Vec::new(), sizes: BTreeMap::new(), numbers: BTreeMap::new() };
        for member in members {
            let rack = member.rack.as_deref().filter(|rack| !rack.is_empty()).map(|rack| racks.number(rack));
            racks.members.push(rack);
            if let Some(rack) = rack {
                *racks.sizes.entry(rack).or_default() += 1;
            }
        }
        if racks.sizes.is_empty() {
            return None;
        }
        for replicas in partitions {
            let mut numbers: Vec<_> = replicas.iter().map(|rack| racks.number(rack)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            racks.partitions.push(numbers);
        }
        Some(racks)
    }

    fn number(&mut self, rack: &'a str) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(rack).or_insert(next)
    }

    /// Tells whether racks make a difference: members share racks with replicas, and not every rack has every
    /// partition.
    pub(super) fn matter(&self, members: impl Iterator<Item = usize>, partitions: Range<usize>) -> bool {
        let of_members: BTreeSet<_> = members.filter_map(|member| self.members[member]).collect();
        let everywhere: BTreeSet<_> = self.partitions[partitions.clone()].iter().flatten().copied().collect();
        !of_members.is_disjoint(&everywhere)
            && self.partitions[partitions].iter().any(|racks| racks.len() != everywhere.len())
    }

    /// The member's rack, if it has one.
    pub(super) fn of_member(&self, member: usize) -> Option<u32> {
        self.members[member]
    }

    /// Tells whether the partition has a replica in the member's rack.
    pub(super) fn shared(&self, member: usize, partition: usize) -> bool {
        self.members[member].is_some_and(|rack| self.partitions[partition].contains(&rack))
    }

    /// Tells whether the member has a rack and the partition has no replica there.
    pub(super) fn mismatch(&self, member: usize, partition: usize) -> bool {
        self.members[member].is_some() && !self.shared(member, partition)
    }

    /// The number of members that have a replica of the partition in their rack.
    pub(super) fn members_near(&self, partition: usize) -> usize {
        self.partitions[partition].iter().filter_map(|rack| self.sizes.get(rack)).sum()
    }
}
