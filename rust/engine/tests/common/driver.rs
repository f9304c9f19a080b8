//! What the worlds of members share under both protocols: the values of settings, offsets, and a driver and user that
//! carry out a member's outputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use monedula_engine::backoff::Backoff;
use monedula_engine::group::{
    CallbackKind, CommitError, CommitOffset, Committed, GroupEvent, Input, MemberConfig, Output, Scope, Ticket,
};
use monedula_engine::{Now, TopicPartition};

pub(crate) const SESSION: Duration = Duration::from_secs(45);
pub(crate) const MAX_POLL: Duration = Duration::from_secs(300);
pub(crate) const AUTO_COMMIT: Duration = Duration::from_secs(5);
/// More than any backoff with its jitter.
pub(crate) const BACKOFF: Duration = Duration::from_millis(1300);
/// How often a machine may wake at one instant before it counts as a busy loop.
pub(crate) const WAKES_PER_INSTANT: u32 = 12;

pub(crate) type Offsets = BTreeMap<TopicPartition, CommitOffset>;
type Outcomes = BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>;

pub(crate) fn member_config() -> MemberConfig {
    MemberConfig {
        group_id: "g".into(),
        instance_id: None,
        rack: None,
        session_timeout: SESSION,
        quick_heartbeats: 1,
        max_poll_interval: MAX_POLL,
        auto_commit_interval: Some(AUTO_COMMIT),
        backoff: Backoff { initial: ms(100), max: ms(1000), factor: 2 },
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A partition of topic `t`.
pub(crate) fn t(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

pub(crate) fn at(offset: i64) -> CommitOffset {
    CommitOffset { offset, leader_epoch: 3, metadata: String::new() }
}

pub(crate) fn offsets(of: &[(i32, i64)]) -> Offsets {
    of.iter().map(|&(partition, offset)| (t(partition), at(offset))).collect()
}

/// A request of the member that waits because the user is busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    Settle(Ticket, BTreeSet<TopicPartition>),
    Callback(Ticket, CallbackKind),
}

/// The input that answers the request.
pub(crate) enum Paid {
    Finished(Ticket, Offsets),
    CalledBack(Ticket),
}

impl From<Paid> for Input {
    fn from(paid: Paid) -> Self {
        match paid {
            Paid::Finished(ticket, offsets) => Self::Finished { ticket, offsets },
            Paid::CalledBack(ticket) => Self::CalledBack { ticket },
        }
    }
}

/// The driver of a member, and its user.
#[derive(Default)]
pub(crate) struct Driver {
    /// The outputs since the test's last look, in a few words each.
    trace: Vec<String>,
    pub events: Vec<GroupEvent>,
    pub committed: Vec<(Option<Ticket>, Outcomes)>,
    pub starts: Vec<(TopicPartition, Committed, bool)>,
    pub lease: Option<Now>,
    /// Offsets that the user finished and that no commit has taken yet.
    pub finished: Offsets,
    /// The user is busy with a batch: callbacks and commits wait.
    pub busy: bool,
    pub owed: VecDeque<Owed>,
    /// Inputs that the member gets next.
    paid: VecDeque<Paid>,
    /// The member is closed: no output may follow.
    pub closed: bool,
}

impl Driver {
    /// Carries out an output of a member that owns these partitions. Returns an output that does not concern the user.
    pub(crate) fn carry_out(&mut self, output: Output, owned: &BTreeSet<TopicPartition>) -> Option<Output> {
        match output {
            Output::Assigned { partitions } => self.note_partitions("assigned", &partitions),
            Output::StartingOffsets { partitions } => {
                self.note_partitions("start", &partitions.iter().map(|(partition, ..)| partition.clone()).collect());
                self.starts.extend(partitions);
            }
            Output::StartingOffsetFailed { partition, code } => {
                self.note(format!("start of {partition} failed: {code}"))
            }
            Output::PrepareRevocation { ticket, partitions } => {
                self.note_partitions("settle", &partitions);
                self.owe(Owed::Settle(ticket, partitions));
            }
            Output::CollectFinished { ticket, scope } => {
                assert_eq!(scope, Scope::All);
                let offsets = std::mem::take(&mut self.finished);
                self.paid.push_back(Paid::Finished(ticket, offsets));
            }
            Output::Callback { ticket, kind, partitions } => {
                self.note_partitions(&format!("{kind:?}"), &partitions);
                self.owe(Owed::Callback(ticket, kind));
            }
            Output::Released { partitions, .. } => {
                self.finished.retain(|partition, _| !partitions.contains(partition));
                self.note_partitions("dropped", &partitions);
            }
            Output::Committed { ticket, outcomes } => {
                for (partition, (offset, outcome)) in &outcomes {
                    // As the ledger does with `not_committed`.
                    if outcome.is_err() && ticket.is_none() && owned.contains(partition) {
                        self.finished.entry(partition.clone()).or_insert_with(|| offset.clone());
                    }
                }
                self.committed.push((ticket, outcomes));
            }
            Output::Lease { until } => self.lease = until,
            Output::Closed => {
                self.note("closed");
                self.closed = true;
            }
            output => return Some(output),
        }
        None
    }

    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.trace.push(what.into());
    }

    fn note_partitions(&mut self, what: &str, partitions: &BTreeSet<TopicPartition>) {
        let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        self.note(format!("{what} {}", names.join(" ")));
    }

    /// The outputs since the last look, without heartbeats that were answered at once.
    pub(crate) fn trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }

    fn owe(&mut self, owed: Owed) {
        self.owed.push_back(owed);
        if !self.busy {
            self.pay_all();
        }
    }

    /// The user carries out all waiting requests, in order.
    pub(crate) fn pay_all(&mut self) {
        while !self.owed.is_empty() {
            self.pay_one();
        }
    }

    /// The user carries out the next waiting request.
    pub(crate) fn pay_one(&mut self) {
        let paid = match self.owed.pop_front() {
            Some(Owed::Settle(ticket, partitions)) => {
                let offsets = self.finished.extract_if(.., |partition, _| partitions.contains(partition)).collect();
                Paid::Finished(ticket, offsets)
            }
            Some(Owed::Callback(ticket, _)) => Paid::CalledBack(ticket),
            None => return,
        };
        self.paid.push_back(paid);
    }

    /// The inputs for the member.
    pub(crate) fn take_paid(&mut self) -> VecDeque<Paid> {
        std::mem::take(&mut self.paid)
    }

    /// The outcome of the user's commit.
    pub(crate) fn outcome(&self, ticket: Ticket) -> Option<&Outcomes> {
        let mut of = self.committed.iter().filter(|(known, _)| *known == Some(ticket));
        let first = of.next();
        assert_eq!(of.next(), None, "commit {ticket} was answered twice");
        first.map(|(_, outcomes)| outcomes)
    }

    /// The one error of a commit of one partition.
    #[track_caller]
    pub(crate) fn commit_error(&self, ticket: Ticket) -> CommitError {
        let outcomes = self.outcome(ticket).unwrap_or_else(|| panic!("commit {ticket} is not answered"));
        let error = outcomes.values().find_map(|(_, outcome)| outcome.as_ref().err());
        error.cloned().unwrap_or_else(|| panic!("commit {ticket} went well"))
    }
}
