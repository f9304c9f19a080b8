//! A process with a member: the driver around the machine, the gates of its delivery, and its user's threads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::ledger::Ledger;
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::machine::is_stable;
use crate::plan::Habits;
use monedula_engine::group::{CallId, CallbackKind, CommitOffset, Input, Member, Ticket, TopicInfo};

/// A partition that is owned, as the delivery sees it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) reading_id: u64,
    /// Fetches name topics by id, so that one made anew is another; `None` before metadata has it.
    pub(crate) topic_id: Option<Uuid>,
    /// The callback that has to end before anything is handed out.
    pub(crate) awaits: Option<Ticket>,
    pub(crate) open: bool,
    pub(crate) position: Option<i64>,
    pub(crate) settling: bool,
}

/// What a batch has of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) partition: TopicPartition,
    pub(crate) reading_id: u64,
    pub(crate) topic_id: Option<Uuid>,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// What a thread of the user's does.
#[derive(Debug)]
pub(crate) enum Doing {
    /// It waits for a batch.
    Calling,
    /// It works on one.
    Holding(Vec<Part>),
    /// It runs a callback.
    CallingBack(Ticket, CallbackKind, BTreeSet<TopicPartition>),
    /// It waits for a commit, then for what comes after.
    Committing(Ticket, Box<Doing>),
}

#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) doing: Doing,
    /// Counts what it did, so that what was planned for an earlier doing is known as such.
    pub(crate) turn: u64,
}

/// How it is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not at all.
    None,
    /// Closed, as soon as the user's thread gets to it.
    Wanted,
    /// Closing until then at most.
    Closing(Now),
}

pub(crate) struct Process {
    pub(crate) slot: usize,
    pub(crate) member: Member,
    pub(crate) ledger: Ledger,
    pub(crate) habits: Habits,
    pub(crate) lanes: BTreeMap<TopicPartition, Lane>,
    pub(crate) lease: Option<Now>,
    pub(crate) callbacks: VecDeque<(Ticket, CallbackKind, BTreeSet<TopicPartition>)>,
    pub(crate) settles: Vec<(Ticket, BTreeSet<TopicPartition>)>,
    pub(crate) holders: Vec<Holder>,
    pub(crate) inbox: VecDeque<Input>,
    /// When the last call of the user's returned.
    pub(crate) returned: Now,
    /// Calls without an outcome: when each was sent, and whether it is a commit.
    pub(crate) calls: BTreeMap<CallId, (Now, bool)>,
    /// Calls that the member cancelled, and whose outcome nobody waits for.
    pub(crate) cancelled: BTreeSet<CallId>,
    /// The user's commits that are not answered, with their deadlines.
    pub(crate) commits: BTreeMap<Ticket, (Now, BTreeMap<TopicPartition, CommitOffset>)>,
    pub(crate) last_ticket: u64,
    pub(crate) last_reading_id: u64,
    pub(crate) last_batch: u64,
    pub(crate) subscription: BTreeSet<Arc<str>>,
    /// What of it exists, as far as it knows.
    pub(crate) matched: BTreeSet<Arc<str>>,
    /// Its view of the cluster.
    pub(crate) known: BTreeMap<Arc<str>, TopicInfo>,
    /// Topics of the whole group, for a leader.
    pub(crate) group_topics: BTreeSet<Arc<str>>,
    pub(crate) ending: Ending,
    pub(crate) unsubscribed: bool,
    pub(crate) stopped_until: Now,
    /// The last poll that the machine was told of.
    pub(crate) told_poll: Now,
    /// Partitions in which the user sought.
    pub(crate) sought: BTreeSet<TopicPartition>,
    pub(crate) slow: Duration,
    pub(crate) fatal: bool,
    /// When it last said what is to be committed before partitions are given up.
    pub(crate) settled: Now,
    /// Commits that came to nothing since their partitions settle, each with its reading.
    pub(crate) failed: BTreeSet<(TopicPartition, i64, String)>,
    /// The last call that was answered with each code.
    pub(crate) answered: BTreeMap<ErrorCode, CallId>,
    /// It is in a rebalance, from its notice on.
    pub(crate) rebalancing: bool,
    /// When, and how often at that time, the machine was woken by its own timer.
    pub(crate) woken: (Now, u32),
}

impl Process {
    pub(crate) fn new(slot: usize, member: Member, habits: Habits, now: Now) -> Self {
        let holders = (0..habits.holders).map(|_| Holder { doing: Doing::Calling, turn: 0 }).collect();
        Self {
            slot,
            member,
            ledger: Ledger::default(),
            habits,
            lanes: BTreeMap::new(),
            lease: None,
            callbacks: VecDeque::new(),
            settles: Vec::new(),
            holders,
            inbox: VecDeque::new(),
            returned: now,
            calls: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            commits: BTreeMap::new(),
            last_ticket: 0,
            last_reading_id: 0,
            last_batch: 0,
            subscription: BTreeSet::new(),
            matched: BTreeSet::new(),
            known: BTreeMap::new(),
            group_topics: BTreeSet::new(),
            ending: Ending::None,
            unsubscribed: false,
            stopped_until: Now::ZERO,
            told_poll: now,
            sought: BTreeSet::new(),
            slow: Duration::ZERO,
            fatal: false,
            settled: Now::ZERO,
            failed: BTreeSet::new(),
            answered: BTreeMap::new(),
            rebalancing: false,
            woken: (Now::ZERO, 0),
        }
    }

    /// When the user last polled: a call that waits polls all the time.
    pub(crate) fn polled(&self, now: Now) -> Now {
        if self.is_calling() { now } else { self.returned }
    }

    pub(crate) fn is_calling(&self) -> bool {
        self.holders.iter().any(|holder| matches!(holder.doing, Doing::Calling))
    }

    pub(crate) fn is_calling_back(&self) -> bool {
        self.holders.iter().any(|holder| match &holder.doing {
            Doing::CallingBack(..) => true,
            Doing::Committing(_, then) => matches!(**then, Doing::CallingBack(..)),
            _ => false,
        })
    }

    /// Whether the user holds records of one of these.
    pub(crate) fn holds(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        self.holders.iter().any(|holder| match &holder.doing {
            Doing::Holding(parts) => parts.iter().any(|part| partitions.contains(&part.partition)),
            _ => false,
        })
    }

    /// Whether it is where it is to be when all is well.
    pub(crate) fn is_settled(&self) -> bool {
        self.ending == Ending::None
            && !self.unsubscribed
            && is_stable(self.member.status().state)
            && self.callbacks.is_empty()
            && self.settles.is_empty()
    }

    pub(crate) fn new_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        // Far from the machine's own tickets, so that the two are never equal by chance.
        self.last_ticket + 1_000_000_000
    }

    pub(crate) fn new_reading_id(&mut self) -> u64 {
        self.last_reading_id += 1;
        self.last_reading_id
    }

    /// Offsets to commit, each with the id of its partition's reading: whoever judges a commit knows what it is of.
    pub(crate) fn stamped(
        &self,
        mut offsets: BTreeMap<TopicPartition, CommitOffset>,
    ) -> BTreeMap<TopicPartition, CommitOffset> {
        for (partition, at) in &mut offsets {
            at.metadata = self.lanes.get(partition).map_or(0, |lane| lane.reading_id).to_string();
        }
        offsets
    }

    /// Whether the user's callback of this kind exists.
    pub(crate) fn listens(&self, kind: CallbackKind) -> bool {
        match kind {
            CallbackKind::Assigned => self.habits.on_assigned,
            CallbackKind::Revoked => self.habits.on_revoked,
            CallbackKind::Lost => self.habits.on_lost,
        }
    }
}
