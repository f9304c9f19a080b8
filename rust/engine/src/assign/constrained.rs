//! The sticky assignment of members that all subscribe to the same topics.
//!
//! Every member gets the same number of partitions, or one more. As these numbers are known in advance, members first
//! keep their previous partitions up to them, and the remaining ones are distributed: no equally balanced assignment
//! moves fewer partitions. With racks (KIP-881), a partition without a replica in its owner's rack is redistributed
//! too, first to members that have one.

use std::collections::VecDeque;

use monedula_protocol::java;

use super::claims::Claims;
use super::group::{Group, Owners};
use super::racks::Racks;

/// Computes the owners. `racks` is `None` if racks make no difference.
pub(super) fn owners(group: &Group<'_>, claims: &Claims, racks: Option<&Racks<'_>>) -> Owners {
    if group.members.is_empty() {
        return vec![None; group.partition_count()];
    }
    let is_free = |partition: &usize| !claims.reserved[*partition];
    let count = (0..group.partition_count()).filter(is_free).count();
    let mut dealing = Dealing::new(group, count);
    dealing.keep(group, kept(group, claims, racks));
    let unowned = (0..dealing.owners.len()).filter(|&partition| dealing.owners[partition].is_none());
    let mut free: Vec<_> = unowned.filter(is_free).collect();
    if let Some(racks) = racks {
        // Partitions that few members have in their rack come first, while these members have room.
        free.sort_by_key(|&partition| racks.members_near(partition));
        free = dealing.deal_near(free, racks);
    }
    dealing.deal(free);
    dealing.owners
}

/// The partitions that each member owned and may keep, in ascending order of partition index across all topics.
fn kept(group: &Group<'_>, claims: &Claims, racks: Option<&Racks<'_>>) -> Vec<Vec<usize>> {
    let mut kept = vec![Vec::new(); group.members.len()];
    let mut order: Vec<_> = (0..group.topic_count()).flat_map(|topic| group.partitions(topic).enumerate()).collect();
    order.sort_unstable();
    for (_, partition) in order {
        if let Some(owner) = claims.owners[partition]
            && !racks.is_some_and(|racks| racks.mismatch(owner, partition))
        {
            kept[owner].push(partition);
        }
    }
    kept
}

/// The distribution in progress. No member gets more than its share.
struct Dealing {
    owners: Owners,
    counts: Vec<usize>,
    /// The least number of partitions of each member.
    least: usize,
    /// The number of members that may still get one more than that.
    extra: usize,
    /// Members with fewer than `least`.
    below: Vec<usize>,
    /// Members with `least`, of which `extra` get one more.
    even: VecDeque<usize>,
}

impl Dealing {
    fn new(group: &Group<'_>, partitions: usize) -> Self {
        let members = group.members.len();
        Self {
            owners: vec![None; group.partition_count()],
            counts: vec![0; members],
            least: partitions / members,
            extra: partitions % members,
            below: Vec::new(),
            even: VecDeque::new(),
        }
    }

    /// Lets members keep their partitions, up to their share. Which members keep more than `least` follows the order in
    /// which Java iterates over them.
    fn keep(&mut self, group: &Group<'_>, had: Vec<Vec<usize>>) {
        let named = |&member: &usize| (group.members[member].member_id.as_str(), member);
        let mut members: Vec<_> = group.joined.iter().map(named).collect();
        java::in_hash_order(&mut members, |(id, _)| id);
        for (_, member) in members {
            let mut share = self.least;
            if had[member].len() > share && self.extra > 0 {
                (share, self.extra) = (share + 1, self.extra - 1);
            }
            for &partition in had[member].iter().take(share) {
                self.owners[partition] = Some(member);
                self.counts[member] += 1;
            }
        }
        self.below = (0..self.counts.len()).filter(|&member| self.counts[member] < self.least).collect();
        if self.extra > 0 {
            self.even = (0..self.counts.len()).filter(|&member| self.counts[member] == self.least).collect();
        }
    }

    /// Distributes partitions to members in one of their racks. Returns those for which no such member has room.
    fn deal_near(&mut self, free: Vec<usize>, racks: &Racks<'_>) -> Vec<usize> {
        let mut left = Vec::new();
        let mut turn = 0;
        for partition in free {
            let near = |member: usize| racks.shared(member, partition);
            let places = (turn..self.below.len()).chain(0..turn.min(self.below.len()));
            if let Some(place) = places.into_iter().find(|&place| near(self.below[place])) {
                turn = self.give_below(place, partition);
                if turn == self.below.len() {
                    turn = 0;
                }
            } else if self.extra > 0
                && let Some(place) = self.even.iter().position(|&member| near(member))
            {
                self.give_even(place, partition);
            } else {
                left.push(partition);
            }
        }
        left
    }

    /// Distributes the remaining partitions: round robin to members below `least`, then one more each to others.
    fn deal(&mut self, free: Vec<usize>) {
        let mut turn = 0;
        for partition in free {
            if turn >= self.below.len() {
                turn = 0;
            }
            if self.below.is_empty() {
                self.give_even(0, partition);
            } else {
                turn = self.give_below(turn, partition);
            }
        }
    }

    /// Gives the partition to the member at `place`. Returns the place that is next.
    fn give_below(&mut self, place: usize, partition: usize) -> usize {
        let member = self.below[place];
        self.owners[partition] = Some(member);
        self.counts[member] += 1;
        if self.counts[member] < self.least {
            return place + 1;
        }
        self.below.remove(place);
        self.even.push_back(member);
        place
    }

    fn give_even(&mut self, place: usize, partition: usize) {
        if let Some(member) = self.even.remove(place) {
            self.owners[partition] = Some(member);
            self.counts[member] += 1;
            self.extra = self.extra.saturating_sub(1);
        }
    }
}
