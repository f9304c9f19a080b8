//! The uniform assignor for members that all subscribe to the same topics: their partition counts differ by one at
//! most, and members keep as many partitions of their previous targets as that allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::{MemberSpec, Spec};
use crate::groups::consumer::Partitions;

pub(super) fn assign(spec: &Spec) -> BTreeMap<Arc<str>, Partitions> {
    let Some(subscribed) = spec.members.first().map(|member| &member.topics).filter(|topics| !topics.is_empty()) else {
        return BTreeMap::new();
    };
    let partitions = |topic: &Uuid| spec.topics.get(topic).copied().unwrap_or(0);
    let all = subscribed.iter().flat_map(|topic| (0..partitions(topic)).map(move |partition| (*topic, partition)));
    let free: Vec<_> = all.filter(|partition| !spec.taken.contains(partition)).collect();
    let total: i32 = subscribed.iter().map(partitions).sum();
    let mut shares = Shares {
        quota: total / spec.members.len() as i32,
        extra: total % spec.members.len() as i32,
        free,
        unfilled: Vec::new(),
        targets: BTreeMap::new(),
    };
    for (index, member) in spec.members.iter().enumerate() {
        shares.keep(member, spec.members.len() - index);
    }
    shares.fill()
}

struct Shares {
    /// The partition count that every member gets at least.
    quota: i32,
    /// The number of members that may still get one more.
    extra: i32,
    /// Partitions that no member keeps.
    free: Vec<(Uuid, i32)>,
    /// Members below their share, and how many partitions they lack.
    unfilled: Vec<(Arc<str>, i32)>,
    targets: BTreeMap<Arc<str>, Partitions>,
}

impl Shares {
    /// Lets a member keep its partitions up to its share. `left` counts the members from this one on.
    fn keep(&mut self, member: &MemberSpec, left: usize) {
        let mut has_extra = self.extra > 0;
        let mut room = self.quota + i32::from(has_extra);
        let mut kept = Partitions::default();
        for (topic, partitions) in member.target.by_topic().filter(|(topic, _)| member.topics.contains(topic)) {
            for &partition in partitions {
                if room > 0 {
                    room -= 1;
                    kept.insert(topic, partition);
                } else {
                    self.free.push((topic, partition));
                }
            }
        }
        // More members follow than there are extra partitions left: one of them may keep a partition with this extra.
        if room > 0 && has_extra && left as i64 > i64::from(self.extra) {
            room -= 1;
            has_extra = false;
        }
        if room > 0 {
            self.unfilled.push((Arc::clone(&member.id), room));
        }
        self.extra -= i32::from(has_extra);
        self.targets.insert(Arc::clone(&member.id), kept);
    }

    /// Assigns the free partitions to the members below their share.
    fn fill(mut self) -> BTreeMap<Arc<str>, Partitions> {
        let mut free = self.free.into_iter();
        for (member, room) in self.unfilled {
            let target = self.targets.entry(member).or_default();
            for (topic, partition) in free.by_ref().take(room.max(0) as usize) {
                target.insert(topic, partition);
            }
        }
        self.targets
    }
}
