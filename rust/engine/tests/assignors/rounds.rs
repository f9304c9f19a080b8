//! A whole group without a broker: members send their owned partitions, the leader assigns, and a member that has to
//! revoke a partition starts another rebalance.

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
    /// Partitions that it revokes slowly, and still claims.
    pub(crate) slow: Partitions,
    /// It misses the next assignment.
    pub(crate) deaf: bool,
    /// Its user data is unreadable.
    pub(crate) garbles: bool,
}

/// The changes of one round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// The partitions that members have to revoke.
    pub(crate) revoked: BTreeMap<String, Partitions>,
    /// The partitions that members got.
    pub(crate) added: BTreeMap<String, Partitions>,
}

pub(crate) struct Lives {
    assignor: &'static str,
    pub(crate) topics: Topics,
    pub(crate) members: BTreeMap<String, Life>,
    generation: i32,
    pub(crate) pace: Pace,
    pub(crate) now: Duration,
    /// The user data that the last leader sent.
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

    /// One generation. `first` chooses the leader: the order of members must not matter, and a leader knows only what
    /// members send. Members revoke at once.
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
                // The owner before this round may read the partition until it learns of the round.
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

    /// The deferral of the last assignment.
    pub(crate) fn deferral(&self) -> Deferral {
        builtin_with(self.assignor, self.pace).expect("known").deferral(self.told.as_deref())
    }

    /// The schedule that the leader sent last.
    pub(crate) fn schedule(&self) -> Schedule {
        Schedule::read(self.told.as_deref().expect("told")).expect("a schedule")
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Rebalances until no member has to revoke anything and nothing is deferred; waits for each deadline.
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

    /// Rebalances until no member has to revoke anything: two at most, unless the assignor defers.
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
