//! The uniform assignor for members that subscribe to different topics.
//!
//! Members keep the partitions of topics that they still subscribe to. Each free partition goes to the least loaded
//! subscriber. Then, topic by topic, partitions move from the most to the least loaded subscriber, until a round over
//! all topics moves none.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::types::Uuid;

use super::Spec;
use crate::groups::consumer::Partitions;

/// The bound on rounds of balancing.
const MAX_ROUNDS: usize = 16;

pub(super) fn assign(spec: &Spec) -> BTreeMap<Arc<str>, Partitions> {
    let mut builder = Builder::new(spec);
    if builder.topics.is_empty() {
        return BTreeMap::new();
    }
    builder.keep(spec);
    builder.assign_free();
    builder.balance();
    let ids = spec.members.iter().map(|member| Arc::clone(&member.id));
    ids.zip(builder.targets).collect()
}

struct Topic {
    id: Uuid,
    /// The indexes of its subscribers.
    subscribers: Vec<usize>,
    /// The owner of each partition, by the member's index.
    owners: Vec<Option<usize>>,
}

struct Builder {
    /// Sorted by partitions per subscriber, the highest first.
    topics: Vec<Topic>,
    /// The target of each member, by its index.
    targets: Vec<Partitions>,
    sizes: Vec<usize>,
}

impl Builder {
    fn new(spec: &Spec) -> Self {
        let mut subscribers: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
        for (index, member) in spec.members.iter().enumerate() {
            for topic in &member.topics {
                subscribers.entry(*topic).or_default().push(index);
            }
        }
        let topic = |(id, subscribers): (Uuid, Vec<usize>)| {
            let partitions = spec.topics.get(&id).copied().unwrap_or(0).max(0);
            Topic { id, subscribers, owners: vec![None; partitions as usize] }
        };
        let mut topics: Vec<Topic> = subscribers.into_iter().map(topic).collect();
        topics.sort_by(|a, b| {
            // Compares partitions per subscriber without division.
            let (of_a, of_b) = (a.owners.len() * b.subscribers.len(), b.owners.len() * a.subscribers.len());
            of_b.cmp(&of_a)
                .then_with(|| a.subscribers.len().cmp(&b.subscribers.len()))
                .then_with(|| java_order(a.id).cmp(&java_order(b.id)))
        });
        Self { topics, targets: vec![Partitions::default(); spec.members.len()], sizes: vec![0; spec.members.len()] }
    }

    fn keep(&mut self, spec: &Spec) {
        for (index, member) in spec.members.iter().enumerate() {
            for topic in self.topics.iter_mut().filter(|topic| member.topics.contains(&topic.id)) {
                for (_, partition) in member.target.iter().filter(|(id, _)| *id == topic.id) {
                    if let Some(owner) = topic.owners.get_mut(partition as usize) {
                        *owner = Some(index);
                        self.sizes[index] += 1;
                        self.targets[index].insert(topic.id, partition);
                    }
                }
            }
        }
    }

    fn assign_free(&mut self) {
        for topic in 0..self.topics.len() {
            let free = self.topics[topic].owners.iter().enumerate().filter(|(_, owner)| owner.is_none());
            let free: Vec<usize> = free.map(|(partition, _)| partition).collect();
            if free.is_empty() {
                continue;
            }
            let mut balancer = Balancer::new(&self.topics[topic].subscribers, &self.sizes);
            for partition in free {
                let to = balancer.least_loaded(&self.sizes);
                self.give(topic, partition, to);
            }
        }
    }

    fn balance(&mut self) {
        let shared: Vec<usize> =
            (0..self.topics.len()).filter(|&topic| self.topics[topic].subscribers.len() >= 2).collect();
        let mut last_changed = None;
        for _ in 0..MAX_ROUNDS {
            for &topic in &shared {
                if last_changed == Some(topic) {
                    return;
                }
                let moved = self.balance_topic(topic);
                if moved > 0 || last_changed.is_none() {
                    last_changed = Some(topic);
                }
            }
        }
    }

    /// Moves partitions of a topic between its subscribers. Returns how many.
    fn balance_topic(&mut self, topic: usize) -> usize {
        let mut balancer = Balancer::new(&self.topics[topic].subscribers, &self.sizes);
        if balancer.imbalance <= 1 {
            return 0;
        }
        // The partitions that each member can lose; `pop` takes the highest first.
        let mut of_member: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (partition, owner) in self.topics[topic].owners.iter().enumerate() {
            if let Some(owner) = owner {
                of_member.entry(*owner).or_default().push(partition);
            }
        }
        let mut moved = 0;
        while !balancer.is_balanced() {
            let mut found = None;
            while let Some(member) = balancer.most_loaded(&self.sizes) {
                if let Some(partition) = of_member.get_mut(&member).and_then(Vec::pop) {
                    found = Some(partition);
                    break;
                }
                balancer.exclude_most_loaded();
            }
            let Some(partition) = found else { break };
            let to = balancer.least_loaded(&self.sizes);
            if balancer.is_balanced() {
                break;
            }
            self.give(topic, partition, to);
            moved += 1;
        }
        moved
    }

    fn give(&mut self, topic: usize, partition: usize, to: usize) {
        let id = self.topics[topic].id;
        if let Some(from) = self.topics[topic].owners[partition].replace(to) {
            self.targets[from].remove(id, partition as i32);
            self.sizes[from] -= 1;
        }
        self.targets[to].insert(id, partition as i32);
        self.sizes[to] += 1;
    }
}

/// Selects the least and the most loaded subscribers of a topic.
///
/// The members are sorted by load. The least loaded ones form a range at the front, and are selected in turn. At the
/// end of the range each of them has one partition more, and the range grows by the members that have as many. The most
/// loaded ones form a range at the back, in the same way.
struct Balancer {
    /// The subscribers, sorted by load, then by index.
    members: Vec<usize>,
    imbalance: usize,
    least_end: usize,
    least_load: i64,
    next_least: usize,
    most_start: usize,
    most_end: usize,
    most_load: i64,
    /// The position after the next most loaded member.
    next_most: usize,
}

impl Balancer {
    fn new(subscribers: &[usize], sizes: &[usize]) -> Self {
        let mut members = subscribers.to_vec();
        members.sort_by_key(|&member| (sizes[member], member));
        let load = |member: Option<&usize>| member.map_or(0, |&member| sizes[member]);
        let (least, most) = (load(members.first()), load(members.last()));
        let count = members.len();
        Self {
            members,
            imbalance: most - least,
            least_end: 0,
            least_load: least as i64 - 1,
            next_least: 0,
            most_start: count,
            most_end: count,
            most_load: most as i64 + 1,
            next_most: count,
        }
    }

    fn least_loaded(&mut self, sizes: &[usize]) -> usize {
        if self.next_least >= self.least_end {
            self.least_load += 1;
            while self.members.get(self.least_end).is_some_and(|&member| sizes[member] as i64 == self.least_load) {
                self.least_end += 1;
            }
            self.next_least = 0;
        }
        self.next_least += 1;
        self.members[self.next_least - 1]
    }

    fn most_loaded(&mut self, sizes: &[usize]) -> Option<usize> {
        if self.next_most <= self.most_start {
            // If all of the range was excluded, the next range has the load of the member before it.
            self.most_load = match self.most_start.checked_sub(1) {
                Some(before) if self.most_end <= self.most_start => sizes[self.members[before]] as i64,
                _ => self.most_load - 1,
            };
            let before = |start: usize| Some(sizes[self.members[start.checked_sub(1)?]] as i64);
            let mut start = self.most_start;
            while before(start) == Some(self.most_load) {
                start -= 1;
            }
            self.most_start = start;
            self.next_most = self.most_end;
        }
        self.next_most = self.next_most.checked_sub(1)?;
        Some(self.members[self.next_most])
    }

    /// Removes the member that was selected last from the range of the most loaded ones.
    fn exclude_most_loaded(&mut self) {
        self.members.swap(self.next_most, self.most_end - 1);
        self.most_end -= 1;
    }

    fn is_balanced(&self) -> bool {
        self.most_load - self.least_load <= 1
    }
}

/// The order in which Java compares UUIDs: as two signed numbers.
fn java_order(id: Uuid) -> (i64, i64) {
    let id = u128::from_be_bytes(id.0);
    ((id >> 64) as i64, id as i64)
}
