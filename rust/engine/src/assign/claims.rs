//! Who had which partitions, from what the members say: what sticky assignors keep.

use std::borrow::Cow;

use super::Subscription;
use super::group::{Group, Owners};
use crate::TopicPartition;

/// What a member says it had: the generation, -1 unknown, and the partitions.
pub(super) type Claim<'a> = (i32, Cow<'a, [TopicPartition]>);

/// The claims of all members, settled by their generations (KIP-792).
pub(super) struct Claims {
    /// Who alone claims the partition in the newest generation in which it is claimed. Of two who claim it in the same one,
    /// neither can be believed.
    pub(super) owners: Owners,
    /// Whether anyone claims the partition, in any generation.
    pub(super) claimed: Vec<bool>,
    /// Who claims it in a generation that the group has left behind: the newest of these.
    pub(super) earlier: Owners,
    /// What is to have no owner, since somebody is waited for: nobody claims it.
    pub(super) reserved: Vec<bool>,
}

impl Claims {
    pub(super) fn settle<'a>(group: &Group<'a>, claim: impl Fn(&'a Subscription) -> Claim<'a>) -> Self {
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
