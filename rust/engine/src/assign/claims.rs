//! The previous owner of each partition, according to the members' claims: the partitions that they report as owned.
//! Sticky assignors keep partitions with these owners.

use std::borrow::Cow;

use super::MemberSubscription;
use super::group::{Group, Owners};
use crate::TopicPartition;

/// The claim of a member: the partitions that it reports as owned, and the generation in which it owned them; -1 if
/// unknown.
pub(super) type Claim<'a> = (i32, Cow<'a, [TopicPartition]>);

/// The claims of all members, resolved by their generations (KIP-792).
pub(super) struct Claims {
    /// The only member that claims the partition in the newest generation in which it is claimed. If two claim it in
    /// the same generation, neither counts.
    pub(super) owners: Owners,
    /// Partitions that a member claims, in any generation.
    pub(super) claimed: Vec<bool>,
    /// The member that claims the partition in a generation older than the newest of the whole group; of several, the
    /// one whose generation is the latest. It may be the owner too.
    pub(super) earlier: Owners,
    /// Partitions that must not be assigned, because they are reserved for a lost member. No member claims them.
    pub(super) reserved: Vec<bool>,
}

impl Claims {
    pub(super) fn settle<'a>(group: &Group<'a>, claim: impl Fn(&'a MemberSubscription) -> Claim<'a>) -> Self {
        let claims: Vec<_> = group.members.iter().map(|member| claim(member)).collect();
        let newest = claims.iter().map(|(generation, _)| *generation).max().unwrap_or(-1);
        let count = group.partition_count();
        let mut settled = Self {
            owners: vec![None; count],
            claimed: vec![false; count],
            earlier: vec![None; count],
            reserved: vec![false; count],
        };
        let (mut generations, mut contested) = (vec![i32::MIN; count], vec![None; count]);
        for (member, (generation, partitions)) in claims.iter().enumerate() {
            for partition in partitions.iter().filter_map(|partition| group.partition(partition)) {
                settled.claimed[partition] = true;
                if *generation > generations[partition] {
                    generations[partition] = *generation;
                    settled.owners[partition] = Some(member);
                } else if *generation == generations[partition] && settled.owners[partition] != Some(member) {
                    contested[partition] = Some(*generation);
                }
                let known = settled.earlier[partition].map(|other: usize| claims[other].0);
                if *generation < newest && known.is_none_or(|known| *generation > known) {
                    settled.earlier[partition] = Some(member);
                }
            }
        }
        for (partition, contested) in contested.into_iter().enumerate() {
            if contested == Some(generations[partition]) {
                settled.owners[partition] = None;
            }
        }
        settled
    }
}
