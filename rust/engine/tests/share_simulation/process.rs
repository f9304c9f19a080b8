//! A process with a member of the group: its machines, the rows that nobody has asked for, and its user's threads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use monedula_engine::cluster::Cluster;
use monedula_engine::group::CallId;
use monedula_engine::group::share::ShareMember;
use monedula_engine::share::{AcknowledgeType, AcknowledgedRange, Acknowledgement, HeldPart, HeldRows, ShareSessions};
use monedula_engine::{Now, TopicPartition};

use crate::plan::Habits;

/// Records of one partition that one answer brought, and that nobody has received.
#[derive(Debug)]
pub(crate) struct FetchedRows {
    /// Without rows.
    pub(crate) part: HeldPart,
    /// The request that acquired them.
    pub(crate) request: u64,
    /// The offsets, and whether there is a record.
    pub(crate) offsets: VecDeque<(i64, bool)>,
}

impl FetchedRows {
    /// When they are released if nobody asks for them.
    pub(crate) fn release_due(&self) -> Now {
        self.part.deadline.saturating_sub(self.part.lock_timeout.mul_f64(0.4))
    }

    /// An acknowledgement of all of them.
    pub(crate) fn acknowledgement(&self, ticket: u64, kind: AcknowledgeType) -> Acknowledgement {
        let range = |(offset, _): &(i64, bool)| AcknowledgedRange { first: *offset, last: *offset, kind };
        self.part.acknowledgement(ticket, self.offsets.iter().map(range).collect())
    }
}

/// What a thread of the user's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It waits for a batch.
    Calling,
    /// It works on one.
    Holding(u64),
    Resting,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) doing: Doing,
    /// Counts what it did, so that what was planned for an earlier doing is known as such.
    pub(crate) turn: u64,
}

/// A row in the user's hands.
#[derive(Debug)]
pub(crate) struct UserRow {
    pub(crate) partition: TopicPartition,
    pub(crate) offset: i64,
    /// The request that acquired it.
    pub(crate) request: u64,
    pub(crate) decided: Option<AcknowledgeType>,
}

/// A batch in the user's hands.
#[derive(Debug)]
pub(crate) struct UserBatch {
    pub(crate) thread: u64,
    pub(crate) rows: Vec<UserRow>,
}

/// The request of a session that is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) request: u64,
    /// What was assigned when it was sent.
    pub(crate) assigned: BTreeSet<TopicPartition>,
}

pub(crate) struct Process {
    pub(crate) slot: usize,
    pub(crate) habits: Habits,
    pub(crate) member: ShareMember,
    pub(crate) member_id: String,
    pub(crate) sessions: ShareSessions,
    pub(crate) held: HeldRows,
    pub(crate) queue: VecDeque<FetchedRows>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) batches: BTreeMap<u64, UserBatch>,
    /// What may be acknowledged of each offset that it has acquired, by which request; `None` while nothing is decided.
    pub(crate) decided: BTreeMap<(TopicPartition, i64), (u64, Option<AcknowledgeType>)>,
    /// When each offset was acquired: of what is in hand since an earlier time, that time.
    pub(crate) acquired_at: BTreeMap<(TopicPartition, i64), Now>,
    /// Acknowledgements without an outcome, and when they were made.
    pub(crate) tickets: BTreeMap<u64, (i64, Acknowledgement)>,
    pub(crate) calls: BTreeSet<CallId>,
    pub(crate) in_flight: BTreeMap<i32, Asked>,
    /// Requests up to these were acquired in vain: with a node, or a partition of its.
    pub(crate) told: BTreeMap<(i32, Option<TopicPartition>), u64>,
    /// Its view of the cluster.
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) awaits_metadata: bool,
    /// A batch was handed out, and the next one may be fetched.
    pub(crate) fetches_ahead: bool,
    pub(crate) stopped_until: Now,
    pub(crate) closing: Option<Now>,
    pub(crate) is_done: bool,
    /// When, and how often at that time, it was woken by itself.
    pub(crate) woken: (Now, u32),
}

impl Process {
    /// The user decides a row, or a rule does; it counts if the offset was not acquired again since.
    pub(crate) fn note_decision(&mut self, batch: u64, row: usize, kind: AcknowledgeType) {
        let Some(row) = self.batches.get_mut(&batch).and_then(|batch| batch.rows.get_mut(row)) else { return };
        if row.decided.is_none() {
            row.decided = Some(kind);
            let decided = self.decided.get_mut(&(row.partition.clone(), row.offset));
            if let Some((_, decided)) = decided.filter(|(request, _)| *request == row.request) {
                *decided = Some(kind);
            }
        }
    }

    /// Whether an acknowledgement of this offset has no outcome yet.
    pub(crate) fn awaits_outcome(&self, (partition, offset): &(TopicPartition, i64)) -> bool {
        let has_it = |it: &AcknowledgedRange| (it.first..=it.last).contains(offset);
        self.tickets.values().any(|(_, it)| it.partition == *partition && it.ranges.iter().any(has_it))
    }

    /// Whether the user has this offset, or an acknowledgement of it has no outcome yet.
    pub(crate) fn has_in_hand(&self, row: &(TopicPartition, i64)) -> bool {
        self.held.find(&row.0, row.1).is_some() || self.awaits_outcome(row)
    }

    pub(crate) fn is_calling(&self) -> bool {
        self.threads.iter().any(|thread| thread.doing == Doing::Calling)
    }

    /// When something is due by itself.
    pub(crate) fn wake_at(&self, now: Now) -> Option<Now> {
        let releases = self.queue.iter().filter(|_| !self.is_calling()).map(FetchedRows::release_due).min();
        let due = [self.member.wake_at(), self.sessions.wake_at(now), self.held.due(), releases];
        due.into_iter().flatten().min().map(|at| at.max(self.stopped_until))
    }

    /// Whether rows of this request were lost, as far as the client knows.
    pub(crate) fn knows_lost(&self, node: i32, partition: &TopicPartition, request: u64) -> bool {
        let told = |of: Option<&TopicPartition>| self.told.get(&(node, of.cloned())).copied().unwrap_or_default();
        request <= told(None).max(told(Some(partition)))
    }
}
