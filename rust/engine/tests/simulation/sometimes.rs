//! Situations that a simulation has to have seen, or else it proves less than it seems to.

use std::collections::BTreeMap;

macro_rules! situations {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        /// A situation worth meeting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Situation {
            $($(#[doc = $doc])* $name,)*
        }

        impl Situation {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

situations! {
    /// Nothing may be handed out any more, because no heartbeat was acknowledged.
    LeaseExpired;
    /// It was renewed after that.
    LeaseRenewed;
    /// A user that wants records gets none, because the lease is over.
    HeldBackByLease;
    /// A commit was answered ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID.
    FencedCommit;
    /// A commit was answered REBALANCE_IN_PROGRESS.
    CommitDuringRebalance;
    /// A commit was refused by the member itself, because the partition is not owned any more.
    CommitRefusedLocally;
    /// A commit before partitions are given up came to nothing.
    RevocationCommitTroubled;
    /// The coordinator moved while a JoinGroup was held.
    CoordinatorMovedDuringJoin;
    /// The answer to a JoinGroup that was carried out was lost.
    LostJoinAnswer;
    /// The answer to a SyncGroup that was carried out was lost.
    LostSyncAnswer;
    /// The answer to an OffsetCommit that was carried out was lost.
    LostCommitAnswer;
    /// A request arrived after its sender had given it up.
    LateRequest;
    /// A heartbeat was answered ILLEGAL_GENERATION.
    IllegalGeneration;
    /// A heartbeat was answered UNKNOWN_MEMBER_ID.
    UnknownMember;
    /// A join was answered UNKNOWN_MEMBER_ID.
    UnknownMemberJoins;
    /// A sync was answered REBALANCE_IN_PROGRESS.
    SyncDuringRebalance;
    /// The coordinator asked to join with an id.
    MemberIdRequired;
    /// A node said that it is not the coordinator.
    NotCoordinator;
    /// A coordinator that was loading answered a heartbeat without knowing the member.
    BlindHeartbeat;
    /// The coordinator was loading.
    LoadInProgress;
    /// A leader came back and was told to leave the assignment as it is.
    AssignmentSkipped;
    /// The user did not poll for too long.
    PollExpired;
    /// A static member was taken over by another process.
    Fenced;
    /// A static member came back, and the generation stayed.
    StaticReturn;
    /// A partition was handed out while its member waited in a join.
    FlowedDuringRebalance;
    /// The user held records of partitions that were to be given up.
    HeldWhileRevoked;
    /// Partitions were lost that the user held records of.
    HeldWhileLost;
    /// Another member took over a partition of which one that was lost still has records.
    ZombieHolds;
    /// A process ended whose place nobody took.
    Retired;
    /// Partitions were added to a topic.
    Growth;
    /// A partition that was added started at its smallest offset under `latest`.
    GrowthUnderLatest;
    /// The subscription changed while records flowed.
    SubscriptionChanged;
    /// The user unsubscribed and subscribed again.
    Resubscribed;
    /// A seek while records flowed.
    Sought;
    /// A process was stopped for longer than its session.
    LongPause;
    /// A member was killed while it held records.
    KilledWithRecords;
    /// A close came to its end in order.
    ClosedInOrder;
    /// A close came to its end at its deadline.
    ClosedAtDeadline;
    /// A member of a cooperative group gave up some partitions and kept others.
    PartlyRevoked;
    /// A group whose members offer different assignors.
    Mixed;
    /// A user committed in the callback of a revocation.
    CommittedInCallback;
    /// What a lost member had was kept for it.
    KeptForLost;
    /// A member came while something was kept, and got it.
    CameBack;
    /// Partitions moved, and others that were to had to wait.
    MovesWaited;
    /// A member joined while it gave up partitions.
    JoinedWhileGivingUp;
    /// The first members of a group waited for others.
    WaitedAtStart;
    /// The answer to a heartbeat of the consumer protocol that was carried out was lost.
    LostHeartbeatAnswer;
    /// A heartbeat of the consumer protocol came late, and the coordinator took it for news.
    MisledByLateRequest;
    /// A heartbeat of the consumer protocol was answered FENCED_MEMBER_EPOCH.
    FencedEpoch;
    /// A heartbeat of the consumer protocol was answered UNKNOWN_MEMBER_ID.
    UnknownConsumer;
    /// A commit was answered STALE_MEMBER_EPOCH.
    StaleCommit;
    /// A static member left for a while.
    LeftForAWhile;
    /// A static member was refused, because its predecessor was not gone.
    Unreleased;
    /// A member of the consumer protocol told everything again, because it was not certain what had arrived.
    ToldEverythingAgain;
    /// A member joined with a pattern that the broker matches.
    MatchedByBroker;
    /// A member changed, or took back, such a pattern.
    PatternChanged;
    /// A topic was deleted and made anew under its name.
    TopicMadeAnew;
    /// A member owned partitions of a topic that was made anew.
    OwnedOfGone;
    /// A classic group could not become one of the consumer protocol, because its first members were still gathering.
    UpgradeRefused;
    /// A classic group became one of the consumer protocol.
    Upgraded;
    /// A group of the consumer protocol became a classic one.
    Downgraded;
    /// A group of which some may speak one protocol and some the other.
    BothProtocols;
}

/// How often each was met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sometimes(BTreeMap<Situation, u64>);

impl Sometimes {
    pub(crate) fn met(&mut self, situation: Situation) {
        *self.0.entry(situation).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (situation, count) in &other.0 {
            *self.0.entry(*situation).or_default() += count;
        }
    }

    pub(crate) fn count(&self, situation: Situation) -> u64 {
        self.0.get(&situation).copied().unwrap_or_default()
    }

    pub(crate) fn never(&self) -> Vec<Situation> {
        Situation::ALL.iter().copied().filter(|situation| self.count(*situation) == 0).collect()
    }
}
