//! The rules, and the bugs that are planted, each to be found by a rule that it breaks.

use monedula_broker::planted as broker;
use monedula_engine::Now;

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Leaders answer as Kafka's: no record is given to a member while another one has it, or once it is done with; with
    /// Kafka's delivery count; and an acknowledgement is taken from the member that has the records alone.
    Leader,
    /// No row is handed out once its lock is over.
    Late,
    /// No row is handed out once the client knows that its lock is lost.
    Stale,
    /// No lock lasts longer for the client than for the leader.
    Deadline,
    /// What is acknowledged is what the user decided.
    Decision,
    /// Each acknowledgement has one outcome, which is true.
    Outcome,
    /// Nothing is read that is not assigned.
    Unassigned,
    /// Nothing is asked for while nobody waits.
    Unwanted,
    /// While all is well, no acknowledgement fails.
    Causeless,
    /// While all is well, no lock of a living member expires.
    Expired,
    /// Who has closed holds nothing.
    Held,
    /// Every record ends accepted or archived, in time.
    Ends,
    /// The broker's lag is that of the records that are not done with, and its dead letters are those that died.
    Lag,
    /// No membership fails.
    Fatal,
    /// Nothing runs without end.
    Spins,
}

/// The rule that was broken first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) at: Now,
    pub(crate) text: String,
}

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Rows are handed out past their locks.
    IgnoreDeadline,
    /// Rows whose locks were lost are handed out.
    IgnoreLoss,
    /// Locks are renewed in no request.
    NeverRenew,
    /// A lock counts from the answer.
    LockFromAnswer,
    /// Acknowledgements are told as taken, and never sent.
    NeverAcknowledge,
    /// Who waits for a lost answer is told that nothing was applied.
    LostIsRefused,
    /// A lost answer is taken for a good one.
    LostIsGood,
    /// Releases are accepted.
    AcceptReleases,
    /// Offsets without a record are acknowledged by nobody.
    KeepGaps,
    /// Rows that nobody asks for stay locked.
    KeepRows,
    /// Decisions wait for the next call of their user.
    SendLate,
    /// Records are asked for all the time.
    AlwaysFetch,
    /// Partitions are not forgotten.
    NeverForget,
    /// Sessions are left open.
    NeverClose,
    /// Requests with acknowledgements raise the epoch twice (confluentinc/kafka#1109).
    RaiseTwice,
    /// Leaders have it.
    Leader(broker::Bug),
}

impl Bug {
    pub(crate) const ALL: &[(Self, &[Rule])] = &[
        (Self::IgnoreDeadline, &[Rule::Late, Rule::Stale]),
        (Self::IgnoreLoss, &[Rule::Stale]),
        (Self::NeverRenew, &[Rule::Expired, Rule::Deadline]),
        (Self::LockFromAnswer, &[Rule::Deadline, Rule::Late]),
        (Self::NeverAcknowledge, &[Rule::Outcome]),
        (Self::LostIsRefused, &[Rule::Outcome]),
        (Self::LostIsGood, &[Rule::Outcome, Rule::Stale]),
        (Self::AcceptReleases, &[Rule::Decision]),
        (Self::KeepGaps, &[Rule::Expired]),
        // What is due and stays undone wakes the driver for ever.
        (Self::KeepRows, &[Rule::Expired, Rule::Spins]),
        (Self::SendLate, &[Rule::Expired, Rule::Causeless, Rule::Spins]),
        (Self::AlwaysFetch, &[Rule::Unwanted]),
        // The machine takes no records of a partition that it has forgotten: their locks end.
        (Self::NeverForget, &[Rule::Unassigned, Rule::Expired]),
        // What was to be acknowledged with the end is told as taken.
        (Self::NeverClose, &[Rule::Held, Rule::Outcome]),
        (Self::RaiseTwice, &[Rule::Causeless]),
        (Self::Leader(broker::Bug::GiveTwice), &[Rule::Leader]),
        (Self::Leader(broker::Bug::KeepCount), &[Rule::Leader]),
        (Self::Leader(broker::Bug::TakeFromAnybody), &[Rule::Leader]),
        (Self::Leader(broker::Bug::ForgetDone), &[Rule::Leader]),
        (Self::Leader(broker::Bug::KeepLocksOfSession), &[Rule::Leader, Rule::Held, Rule::Ends]),
    ];

    /// The bug of a leader.
    pub(crate) fn of_leader(self) -> Option<broker::Bug> {
        match self {
            Self::Leader(bug) => Some(bug),
            _ => None,
        }
    }
}

/// What a simulation has to meet: counts of the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures(std::collections::BTreeMap<&'static str, usize>);

impl Figures {
    /// What every run of some hundred seeds meets.
    const ALL: &[&str] = &[
        "accepted",
        "archived",
        "dead letters",
        "delivered again",
        "handed out",
        "released unread",
        "renewed",
        "late answers",
        "locks lost",
        "SessionLost",
        "LeaderMoved",
        "LockLost",
        "Unknown",
        "Closed",
        "unnoticed losses",
        "leaders moved",
        "nodes stopped",
        "killed",
        "closed",
        "paused",
        "gaps",
        "batches in parts",
    ];

    pub(crate) fn met(&mut self, what: &'static str, times: usize) {
        *self.0.entry(what).or_default() += times;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.met(what, *times));
    }

    pub(crate) fn never(&self) -> Vec<&'static str> {
        Self::ALL.iter().copied().filter(|what| self.0.get(what).is_none_or(|times| *times == 0)).collect()
    }
}
