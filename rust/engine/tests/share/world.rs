//! The sessions of a member in virtual time, with brokers whose answers the test chooses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::backoff::Backoff;
use monedula_engine::cluster::{Cluster, Partition, Topic};
use monedula_engine::share::{
    AcknowledgeError, AcknowledgePlan, AcknowledgeType, AcknowledgedRange, Acknowledgement, Acquired, FetchedPartition,
    SessionId, ShareAnswer, ShareFetchPlan, ShareOutput, ShareSessions, ShareSettings,
};
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

pub(crate) use crate::common::driver::{BACKOFF, ms, secs, t};

/// How long a lock lasts.
pub(crate) const LOCK: Duration = Duration::from_secs(30);
pub(crate) const ID: Uuid = Uuid([b't'; 16]);

pub(crate) fn settings() -> ShareSettings {
    ShareSettings {
        max_wait: ms(5000),
        max_records: 500,
        is_strict: false,
        backoff: Backoff { initial: ms(100), max: ms(1000), factor: 2 },
    }
}

/// Partitions of `t` by their leaders.
fn cluster(leaders: &[(i32, Option<i32>)]) -> Arc<Cluster> {
    let partitions = leaders.iter().map(|&(index, leader)| (index, Partition { leader, leader_epoch: 1 }));
    let topic = Topic {
        id: ID,
        is_internal: false,
        error: ErrorCode::None,
        unknown: None,
        partitions: partitions.collect(),
        replicas: BTreeMap::new(),
    };
    Arc::new(Cluster { topics: [("t".into(), topic)].into(), ..Cluster::default() })
}

pub(crate) fn range(first: i64, last: i64, kind: AcknowledgeType) -> AcknowledgedRange {
    AcknowledgedRange { first, last, kind }
}

/// A partition in an answer.
pub(crate) fn fetched(partition: i32, acquired: &[(i64, i64)]) -> FetchedPartition {
    let acquired = acquired.iter().map(|&(first, last)| Acquired { first, last, delivery_count: 1 });
    FetchedPartition {
        topic_id: ID,
        partition,
        code: ErrorCode::None,
        acknowledge_code: ErrorCode::None,
        leader: (-1, -1),
        acquired: acquired.collect(),
    }
}

pub(crate) fn answer(partitions: Vec<FetchedPartition>) -> ShareAnswer {
    ShareAnswer { code: ErrorCode::None, lock_timeout: LOCK, partitions }
}

pub(crate) type Outcome = (u64, Result<(), AcknowledgeError>);

pub(crate) struct World {
    pub(crate) sessions: ShareSessions,
    pub(crate) now: Now,
    /// Outputs that the test has not looked at.
    pub(crate) outputs: VecDeque<ShareOutput>,
}

impl World {
    /// Somebody waits for records of these partitions, each with its leader.
    pub(crate) fn new(settings: ShareSettings, leaders: &[(i32, Option<i32>)]) -> Self {
        let mut world = Self { sessions: ShareSessions::new(settings, 7), now: secs(1000), outputs: VecDeque::new() };
        world.lead(leaders);
        world.assign(&leaders.iter().map(|(partition, _)| *partition).collect::<Vec<_>>());
        world.sessions.set_wanted(true);
        world
    }

    /// One partition that node 1 leads, of which offsets 0 to 9 are acquired.
    pub(crate) fn with_records() -> (Self, SessionId) {
        let mut world = Self::new(settings(), &[(0, Some(1))]);
        world.fetch(1);
        world.answer(1, vec![fetched(0, &[(0, 9)])]);
        let Some(ShareOutput::Acquired { session, .. }) = world.outputs.pop_front() else { panic!("nothing acquired") };
        (world, session)
    }

    pub(crate) fn lead(&mut self, leaders: &[(i32, Option<i32>)]) {
        self.sessions.update_metadata(&cluster(leaders));
    }

    pub(crate) fn assign(&mut self, partitions: &[i32]) {
        self.sessions.assign(partitions.iter().map(|&partition| (t(partition), ID)).collect());
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.sessions.tick(self.now);
        self.drain();
    }

    pub(crate) fn ready(&mut self) -> Vec<i32> {
        let ready = self.sessions.ready_nodes(self.now);
        self.drain();
        ready
    }

    /// Fetches from a node, which has to be ready.
    #[track_caller]
    pub(crate) fn fetch(&mut self, node: i32) -> ShareFetchPlan {
        assert!(self.ready().contains(&node), "node {node} is not ready");
        self.sessions.fetch(node, false, self.now)
    }

    pub(crate) fn acknowledge_next(&mut self) -> Option<(i32, AcknowledgePlan)> {
        self.sessions.acknowledge_next(self.now)
    }

    pub(crate) fn answer(&mut self, node: i32, partitions: Vec<FetchedPartition>) {
        self.sessions.answered(node, &answer(partitions), self.now);
        self.drain();
    }

    pub(crate) fn refuse(&mut self, node: i32, code: ErrorCode) {
        let answer = ShareAnswer { code, lock_timeout: Duration::ZERO, partitions: Vec::new() };
        self.sessions.answered(node, &answer, self.now);
        self.drain();
    }

    pub(crate) fn lose(&mut self, node: i32) {
        self.sessions.lost(node, "the connection was lost", self.now);
        self.drain();
    }

    pub(crate) fn disconnect(&mut self, session: SessionId) {
        self.sessions.disconnected(session);
        self.drain();
    }

    pub(crate) fn of(&self, ticket: u64, session: SessionId, ranges: &[AcknowledgedRange]) -> Acknowledgement {
        Acknowledgement { ticket, session, partition: t(0), topic_id: ID, ranges: ranges.to_vec() }
    }

    pub(crate) fn acknowledge(&mut self, ticket: u64, session: SessionId, ranges: &[AcknowledgedRange]) {
        let acknowledgement = self.of(ticket, session, ranges);
        self.sessions.acknowledge(acknowledgement);
        self.drain();
    }

    pub(crate) fn renew(&mut self, ticket: u64, session: SessionId, first: i64, last: i64) {
        let renewal = self.of(ticket, session, &[range(first, last, AcknowledgeType::Renew)]);
        self.sessions.renew(renewal);
        self.drain();
    }

    fn drain(&mut self) {
        self.outputs.extend(std::iter::from_fn(|| self.sessions.poll()));
    }

    /// Takes the outcomes of acknowledgements out of the outputs.
    pub(crate) fn outcomes(&mut self) -> Vec<Outcome> {
        let (mut outcomes, mut rest) = (Vec::new(), VecDeque::new());
        for output in std::mem::take(&mut self.outputs) {
            match output {
                ShareOutput::Acknowledged { acknowledgement, outcome } => {
                    outcomes.push((acknowledgement.ticket, outcome.map(drop)));
                }
                output => rest.push_back(output),
            }
        }
        self.outputs = rest;
        outcomes
    }

    /// The partitions of which locks were lost.
    pub(crate) fn lost(&self) -> Vec<Option<TopicPartition>> {
        let lost = self.outputs.iter().filter_map(|output| match output {
            ShareOutput::LocksLost { partition, .. } => Some(partition.clone()),
            _ => None,
        });
        lost.collect()
    }

    pub(crate) fn refreshes(&self) -> usize {
        self.outputs.iter().filter(|output| **output == ShareOutput::RefreshMetadata).count()
    }
}
