//! A whole group without a broker: members tell what they had, the leader assigns, and whoever has to give up a partition makes
//! the group meet again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{
    Deferral, LastAssignment, Pace, Protocol, Schedule, Topics, builtin_with, perform, read_assignment,
    subscription_bytes, with_user_data,
};

pub(crate) type Partitions = BTreeSet<TopicPartition>;

#[derive(Clone, Default)]
pub(crate) struct Life {
    pub(crate) topics: BTreeSet<Arc<str>>,
    pub(crate) instance: Option<String>,
    pub(crate) owned: Partitions,
    pub(crate) last: LastAssignment,
    last_at: Duration,
    /// What it takes its time to give up, and goes on to claim.
    pub(crate) slow: Partitions,
    /// It hears nothing of the next assignment.
    pub(crate) deaf: bool,
    /// What it tells cannot be understood.
    pub(crate) garbles: bool,
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
    pub(crate) pace: Pace,
    pub(crate) now: Duration,
    /// What the last leader told.
    pub(crate) told: Option<Vec<u8>>,
}

impl Lives {
    pub(crate) fn new(assignor: &'static str, topics: Topics) -> Self {
        let (members, pace, now) = (BTreeMap::new(), Pace::default(), Duration::ZERO);
        Self { assignor, topics, members, generation: 0, pace, now, told: None }
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
        let assignor = builtin_with(self.assignor, self.pace).expect("known");
        let cooperative = assignor.protocol() == Protocol::Cooperative;
        let metadata = self.members.iter().map(|(id, life)| {
            let told = if cooperative { life.owned.clone() } else { Partitions::new() };
            let generation = life.last.generation;
            let last = LastAssignment { age: self.now - life.last_at, ..life.last.clone() };
            let bytes = subscription_bytes(&*assignor, &life.topics, &told, generation, &last, None);
            let bytes = bytes.expect("bytes");
            let bytes = if life.garbles { with_user_data(&bytes, Some(&[0x7f, 1])).expect("bytes") } else { bytes };
            (id.clone(), life.instance.clone(), bytes)
        });
        let metadata: Vec<_> = metadata.collect();
        let before = self.owners();
        self.generation += 1;
        let mut round = Round::default();
        for (id, bytes) in perform(&*assignor, &self.topics, &metadata).expect("assigns") {
            let assigned = read_assignment(&bytes).expect("assignment");
            let (assigned, user_data): (Partitions, _) =
                (assigned.partitions.into_iter().collect(), assigned.user_data);
            let life = self.members.get_mut(&id).expect("a member");
            self.told = user_data.clone();
            if life.deaf {
                continue;
            }
            let revoked: Partitions = life.owned.difference(&assigned).cloned().collect();
            let added: Partitions = assigned.difference(&life.owned).cloned().collect();
            for partition in &added {
                // Whoever had it before this round may be reading it until it hears of the round.
                assert!(!cooperative || !before.contains_key(partition), "{partition} was not free");
            }
            let keeps: Partitions = revoked.intersection(&life.slow).cloned().collect();
            life.owned = assigned.union(&keeps).cloned().collect();
            let (generation, partitions) = (self.generation, assigned);
            life.last = LastAssignment { generation, partitions, user_data, current: true, ..Default::default() };
            life.last_at = self.now;
            for (changes, partitions) in [(&mut round.revoked, revoked), (&mut round.added, added)] {
                if !partitions.is_empty() {
                    changes.insert(id.clone(), partitions);
                }
            }
        }
        round
    }

    /// What was left for later.
    pub(crate) fn deferral(&self) -> Deferral {
        builtin_with(self.assignor, self.pace).expect("known").deferral(self.told.as_deref())
    }

    /// As the leader told it last.
    pub(crate) fn schedule(&self) -> Schedule {
        Schedule::read(self.told.as_deref().expect("told")).expect("a schedule")
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Rounds until nobody has to give up anything and nothing is left for later, all of which is waited for.
    pub(crate) fn settle_in_time(&mut self) -> Vec<Round> {
        let mut rounds = vec![self.round()];
        loop {
            assert!(rounds.len() < 2000, "without end");
            let revoked = rounds.last().is_some_and(|round| !round.revoked.is_empty());
            match self.deferral().rejoin_after {
                _ if revoked => {}
                Some(left) => self.pass(left),
                None => return rounds,
            }
            rounds.push(self.round());
        }
    }

    /// Rounds until nobody has to give up anything: two at most, but where things are left for later.
    pub(crate) fn settle(&mut self) -> Vec<Round> {
        if ["deferred", "incremental"].contains(&self.assignor) {
            return self.settle_in_time();
        }
        let mut rounds = vec![self.round()];
        if self.assignor == "cooperative-sticky" && !rounds[0].revoked.is_empty() {
            rounds.push(self.round());
            assert!(rounds[1].revoked.is_empty(), "a second revocation: {rounds:?}");
        }
        rounds
    }
}
