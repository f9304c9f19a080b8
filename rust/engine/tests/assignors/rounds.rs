//! A whole group without a broker: members tell what they had, the leader assigns, and whoever has to give up a partition makes
//! the group meet again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{
    LastAssignment, Protocol, Topics, builtin, perform, read_assignment, subscription_bytes,
};

pub(crate) type Partitions = BTreeSet<TopicPartition>;

#[derive(Clone, Default)]
pub(crate) struct Life {
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) instance: Option<String>,
    pub(crate) owned: Partitions,
    last: LastAssignment,
}

/// What one round changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// What members were told to give up.
    pub(crate) revoked: BTreeMap<String, Partitions>,
    /// What members got.
    pub(crate) added: BTreeMap<String, Partitions>,
}

pub(crate) struct Lives {
    assignor: &'static str,
    pub(crate) topics: Topics,
    pub(crate) members: BTreeMap<String, Life>,
    generation: i32,
}

impl Lives {
    pub(crate) fn new(assignor: &'static str, topics: Topics) -> Self {
        Self { assignor, topics, members: BTreeMap::new(), generation: 0 }
    }

    pub(crate) fn join(&mut self, id: &str, topics: &[&str]) {
        let topics = topics.iter().map(|&topic| topic.into()).collect();
        let last = LastAssignment { generation: -1, ..Default::default() };
        self.members.insert(id.into(), Life { topics, last, ..Default::default() });
    }

    pub(crate) fn owned(&self, id: &str) -> &Partitions {
        &self.members[id].owned
    }

    pub(crate) fn owners(&self) -> BTreeMap<TopicPartition, String> {
        let mut owners = BTreeMap::new();
        for (id, life) in &self.members {
            for partition in &life.owned {
                assert_eq!(owners.insert(partition.clone(), id.clone()), None, "{partition} has two owners");
            }
        }
        owners
    }

    /// One generation, for which `first` brings the leader: any order of the members must do, and a leader knows nothing but what
    /// it is told. Members give up at once what they are told to.
    pub(crate) fn round(&mut self) -> Round {
        let assignor = builtin(self.assignor).expect("known");
        let cooperative = assignor.protocol() == Protocol::Cooperative;
        let metadata = self.members.iter().map(|(id, life)| {
            let told = if cooperative { life.owned.clone() } else { Partitions::new() };
            let generation = life.last.generation;
            let bytes = subscription_bytes(&*assignor, &life.topics, &told, generation, &life.last, None);
            (id.clone(), life.instance.clone(), bytes.expect("bytes"))
        });
        let metadata: Vec<_> = metadata.collect();
        let before = self.owners();
        self.generation += 1;
        let mut round = Round::default();
        for (id, bytes) in perform(&*assignor, &self.topics, &metadata).expect("assigns") {
            let assigned: Partitions = read_assignment(&bytes).expect("assignment").partitions.into_iter().collect();
            let life = self.members.get_mut(&id).expect("a member");
            let revoked: Partitions = life.owned.difference(&assigned).cloned().collect();
            let added: Partitions = assigned.difference(&life.owned).cloned().collect();
            for partition in &added {
                // Whoever had it before this round may be reading it until it hears of the round.
                assert!(!cooperative || !before.contains_key(partition), "{partition} was not free");
            }
            life.owned = assigned.clone();
            life.last = LastAssignment { generation: self.generation, partitions: assigned, user_data: None };
            for (changes, partitions) in [(&mut round.revoked, revoked), (&mut round.added, added)] {
                if !partitions.is_empty() {
                    changes.insert(id.clone(), partitions);
                }
            }
        }
        round
    }

    /// Rounds until nobody has to give up anything: two at most.
    pub(crate) fn settle(&mut self) -> Vec<Round> {
        let mut rounds = vec![self.round()];
        if self.assignor == "cooperative-sticky" && !rounds[0].revoked.is_empty() {
            rounds.push(self.round());
            assert!(rounds[1].revoked.is_empty(), "a second revocation: {rounds:?}");
        }
        rounds
    }
}
