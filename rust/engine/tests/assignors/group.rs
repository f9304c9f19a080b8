//! Short notation for topics and members.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{Assignment, MemberSubscription, Topics, builtin};

pub(crate) fn topics(counts: &[(&str, usize)]) -> Topics {
    counts.iter().map(|&(name, count)| (name.into(), vec![Vec::new(); count])).collect()
}

pub(crate) fn member(id: &str, topics: &[&str]) -> MemberSubscription {
    let mut topics: Vec<Arc<str>> = topics.iter().map(|&topic| topic.into()).collect();
    topics.sort();
    MemberSubscription { member_id: id.into(), topics, generation: -1, ..Default::default() }
}

pub(crate) fn assign(assignor: &str, topics: &Topics, members: &[MemberSubscription]) -> Assignment {
    builtin(assignor).expect("known").assign(topics, members).expect("assigns")
}

/// The owner of each partition.
pub(crate) fn owners(assignment: &Assignment) -> BTreeMap<TopicPartition, String> {
    let mut owners = BTreeMap::new();
    for (member, assigned) in assignment {
        for partition in &assigned.partitions {
            let other = owners.insert(partition.clone(), member.clone());
            assert_eq!(other, None, "{partition} is also {member}'s");
        }
    }
    owners
}
