//! Kafka's assignor of share groups, `simple`: it spreads the members over the partitions of each topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use crate::groups::consumer::Partitions;

/// Kafka's name of the assignor.
pub(crate) const ASSIGNOR: &str = "simple";

/// The assignment of a topic's partitions to the members that subscribe to it, which come with what they had.
///
/// With more members than partitions each partition gets several of them. A member keeps what it had as far as that is
/// even.
pub(super) fn assign(
    topic: Uuid,
    partitions: i32,
    members: &[(Arc<str>, &Partitions)],
) -> BTreeMap<Arc<str>, Vec<i32>> {
    let mut assigned: BTreeMap<Arc<str>, Vec<i32>> =
        members.iter().map(|(id, _)| (Arc::clone(id), Vec::new())).collect();
    let (Ok(partitions), true) = (usize::try_from(partitions), !members.is_empty()) else { return assigned };
    if partitions == 0 {
        return assigned;
    }
    // Most members of a partition, and most partitions of a member.
    let sharing = members.len().div_ceil(partitions);
    let most = (partitions * sharing).div_ceil(members.len());
    let mut taken = vec![0; partitions];
    for (id, before) in members {
        let kept = (0..partitions).filter(|&index| before.contains(topic, index as i32));
        for index in kept {
            let own = assigned.entry(Arc::clone(id)).or_default();
            if own.len() < most && taken[index] < sharing {
                own.push(index as i32);
                taken[index] += 1;
            }
        }
    }
    // The member with the fewest partitions gets the one with the fewest members, until all have enough.
    loop {
        let mut short: Vec<_> = assigned.iter_mut().map(|(_, own)| own).filter(|own| own.len() < most).collect();
        short.sort_by_key(|own| own.len());
        let chosen = short.into_iter().find_map(|own| {
            let free = (0..partitions).filter(|&index| taken[index] < sharing && !own.contains(&(index as i32)));
            Some((free.min_by_key(|&index| taken[index])?, own))
        });
        let Some((index, own)) = chosen else { break };
        own.push(index as i32);
        taken[index] += 1;
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(partitions: i32, members: usize) -> (Vec<usize>, Vec<usize>) {
        let none = Partitions::default();
        let members: Vec<_> = (0..members).map(|index| (Arc::from(format!("m{index}")), &none)).collect();
        let assigned = assign(Uuid([1; 16]), partitions, &members);
        let of = |index: i32| assigned.values().filter(|own| own.contains(&index)).count();
        (assigned.values().map(Vec::len).collect(), (0..partitions).map(of).collect())
    }

    #[test]
    fn every_partition_has_members_and_every_member_partitions() {
        for (partitions, members) in [(1, 1), (3, 1), (1, 5), (3, 2), (4, 3), (3, 7), (50, 9)] {
            let (own, of) = counts(partitions, members);
            let sharing = members.div_ceil(partitions as usize);
            assert!(of.iter().all(|count| (1..=sharing).contains(count)), "{partitions}, {members}: {of:?}");
            assert!(own.iter().all(|&count| count >= 1), "{partitions}, {members}: {own:?}");
            assert!(own.iter().max().unwrap() - own.iter().min().unwrap() <= 1, "{partitions}, {members}: {own:?}");
        }
    }

    #[test]
    fn a_member_keeps_what_it_had() {
        let topic = Uuid([1; 16]);
        let before: Partitions = [(topic, 1), (topic, 3)].into_iter().collect();
        let none = Partitions::default();
        let assigned = assign(topic, 4, &[("a".into(), &none), ("b".into(), &before)]);
        assert_eq!(assigned["b"], [1, 3]);
        assert_eq!(assigned["a"], [0, 2]);
    }
}
