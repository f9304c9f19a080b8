//! The range assignor: it divides the partitions of each topic into consecutive ranges, one for each subscriber.
//!
//! Members are sorted by instance id, then by id, so topics with the same subscribers and as many partitions are
//! divided alike: records that are partitioned by the same key reach the same member.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::{MemberSpec, Spec};
use crate::groups::consumer::Partitions;

/// The partitions of a topic that are not assigned yet, from `next` to `partitions`.
struct Rest {
    next: i32,
    partitions: i32,
    quota: i32,
    /// The number of members still to come that get one more than the quota.
    extra: i32,
}

pub(super) fn assign(spec: &Spec) -> BTreeMap<Arc<str>, Partitions> {
    let mut members: Vec<&MemberSpec> = spec.members.iter().collect();
    // Static members come first, and keep their position when they come back with another id.
    members.sort_by_key(|member| (member.instance_id.is_none(), member.instance_id.clone(), member.id.clone()));
    let mut subscribers: BTreeMap<Uuid, i32> = BTreeMap::new();
    for topic in members.iter().flat_map(|member| &member.topics) {
        *subscribers.entry(*topic).or_default() += 1;
    }
    let rest = |(topic, count): (Uuid, i32)| {
        let partitions = spec.topics.get(&topic).copied().unwrap_or(0);
        (topic, Rest { next: 0, partitions, quota: partitions / count, extra: partitions % count })
    };
    let mut topics: BTreeMap<Uuid, Rest> = subscribers.into_iter().map(rest).collect();
    let mut serve = |member: &&MemberSpec| {
        let mut target = Partitions::default();
        for topic in &member.topics {
            let Some(rest) = topics.get_mut(topic) else { continue };
            let quota = rest.quota + i32::from(rest.extra > 0);
            rest.extra -= 1;
            let end = (rest.next + quota).min(rest.partitions);
            for partition in rest.next..end {
                target.insert(*topic, partition);
            }
            rest.next = end;
        }
        (Arc::clone(&member.id), target)
    };
    members.iter().map(&mut serve).collect()
}
