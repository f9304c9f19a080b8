//! What a rule forgives, because Kafka's protocol has nothing against it. Each excuse has an exact cause and an end; it is counted where
//! a rule would be broken without it, has to occur, and may occur only so often: else it hides more than it was made for.

use std::collections::BTreeMap;

use crate::{MANY, SEEDS};

/// Why something that breaks a rule is nobody's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Excuse {
    /// The first commit after a seek is lower than the last before it.
    BackAfterSeek,
    /// A stray commit is lower than the one before it: of a request that its sender has given up, or of a member whose partition the
    /// coordinator believes to be another's. Nothing in it says so.
    StrayGoesBack,
    /// The owner's commit is lower than a stray one that came between its own.
    BackAfterStray,
    /// Reading starts at what was committed when it was looked up, and a stray commit came since.
    StartBeforeStray,
    /// A stray commit stands at the end, over one of the owner's that had all. Counted by requests: one has as many partitions as its
    /// member owned, and each is over with the owner's next commit of it.
    StrayAtTheEnd,
    /// A coordinator that was loading answered a heartbeat, as Kafka's do, with success and without knowing whether the member is in
    /// the group. Until the next answer, or the end of the lease that this one gave, the member and its successor both believe.
    Blind,
    /// A late request told the coordinator that a member owns less than it does, until that has heard what came of it.
    Misled,
    /// The coordinator made a consumer group of a classic one without knowing that a member has a partition.
    Unaccounted,
    /// Kafka's coordinator takes the targets of members for what they own when it makes a classic group of a consumer group, and gives
    /// them out to who asks first.
    Downgraded,
    /// A process whose static id another has taken does not hear so before its next request.
    Replaced,
    /// A classic group whose members have not agreed on a protocol cannot become one of the consumer protocol, and after half a minute
    /// of attempts that is an error.
    UpgradeGivenUp,
    /// After a failover a coordinator knows of each member its metadata for the chosen assignor only: who offers others is refused until
    /// those have joined again.
    ReadBack,
    /// A static leader that came back does not know what was kept back, or added, before: the next rebalance mends it.
    Nudged,
    /// Kafka's coordinator does not give out what nobody had when it made a consumer group of a classic one for a static member that
    /// took the place of another: only what changes the group brings a new target.
    GrownForTarget,
}

impl Excuse {
    pub(crate) const ALL: &[Self] = &[
        Self::BackAfterSeek,
        Self::StrayGoesBack,
        Self::BackAfterStray,
        Self::StartBeforeStray,
        Self::StrayAtTheEnd,
        Self::Blind,
        Self::Misled,
        Self::Unaccounted,
        Self::Downgraded,
        Self::Replaced,
        Self::UpgradeGivenUp,
        Self::ReadBack,
        Self::Nudged,
        Self::GrownForTarget,
    ];

    /// How often it may be used in one seed, and in how many of a thousand seeds: about twice of what 20,000 seeds showed. Some are
    /// counted with each batch that is handed out, and each commit.
    fn most(self) -> (u64, u64) {
        match self {
            // In a third of the seeds, users seek after every thirtieth batch.
            Self::BackAfterSeek => (1100, 500),
            Self::StrayGoesBack => (25, 80),
            Self::BackAfterStray => (8, 8),
            Self::StartBeforeStray => (8, 10),
            Self::StrayAtTheEnd => (6, 15),
            // Counts from the failover until the next heartbeat of each member.
            Self::Blind => (400, 2),
            Self::Misled => (8, 1),
            // Counts for as long as a user takes to give partitions up.
            Self::Unaccounted => (150, 70),
            Self::Downgraded => (15, 4),
            // Counts until the end of the previous process's session.
            Self::Replaced => (3000, 90),
            // Only in plans that upgrade the group; see `upgrading`.
            Self::UpgradeGivenUp => (2, 40),
            // Each attempt to join ends a process.
            Self::ReadBack => (120, 2),
            Self::Nudged | Self::GrownForTarget => (1, 1),
        }
    }

    /// In how many seeds it has to occur. Some take a failover, a late request or a conversion of the group in one certain moment.
    fn occurs_within(self) -> u64 {
        match self {
            Self::BackAfterSeek
            | Self::StrayGoesBack
            | Self::StartBeforeStray
            | Self::StrayAtTheEnd
            | Self::Unaccounted
            | Self::Replaced
            | Self::UpgradeGivenUp => SEEDS,
            // Three of 1,200 seeds had it: the few may be without, whatever is drawn otherwise.
            Self::BackAfterStray => MANY,
            Self::Blind | Self::Downgraded | Self::ReadBack | Self::Nudged | Self::GrownForTarget => MANY,
            // It occurred in three of 40,000 seeds.
            Self::Misled => 5 * MANY,
        }
    }
}

/// How often each was used, and in how many seeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excuses(BTreeMap<Excuse, (u64, u64, u64)>);

impl Excuses {
    /// Uses it. Whether it is used too often.
    pub(crate) fn used(&mut self, excuse: Excuse) -> bool {
        let (uses, seeds, most) = self.0.entry(excuse).or_default();
        (*uses, *seeds, *most) = (*uses + 1, 1, *most + 1);
        *uses > excuse.most().0
    }

    /// Those that were used in too many of so many seeds. A few seeds more are chance.
    pub(crate) fn too_many(&self, seeds: u64) -> Vec<Excuse> {
        let many = |excuse: &Excuse| self.count(*excuse).1 > 3 + excuse.most().1 * seeds / 1000;
        Excuse::ALL.iter().copied().filter(many).collect()
    }

    /// Those that never occurred and had to in so many seeds.
    pub(crate) fn never(&self, seeds: u64) -> Vec<Excuse> {
        let missing = |excuse: &Excuse| self.count(*excuse).0 == 0 && seeds >= excuse.occurs_within();
        Excuse::ALL.iter().copied().filter(missing).collect()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (excuse, (uses, seeds, most)) in &other.0 {
            let sum = self.0.entry(*excuse).or_default();
            *sum = (sum.0 + uses, sum.1 + seeds, sum.2.max(*most));
        }
    }

    /// How often, in how many seeds, and how often in one seed at most.
    pub(crate) fn count(&self, excuse: Excuse) -> (u64, u64, u64) {
        self.0.get(&excuse).copied().unwrap_or_default()
    }
}
