//! Bugs that tests plant, to see that the model checks and the engine's simulation find them. Outside of tests none can
//! be planted.

/// A bug of a coordinator, or of a leader of share partitions.
#[cfg_attr(not(feature = "planted"), expect(unreachable_pub, reason = "public where others plant them"))]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bug {
    /// In a classic group, a SyncGroup is answered before the leader has sent the assignment.
    AnswerSyncEarly,
    /// In a classic group, a new generation has the number of the previous one.
    KeepGeneration,
    /// In a classic group, a member that has not joined in time stays.
    KeepLate,
    /// In a classic group, the first member is not read back after a failover.
    ForgetMember,
    /// In a consumer group, a partition is assigned before its previous owner has acknowledged its revocation.
    GiveBeforeReported,
    /// In a consumer group, a heartbeat without owned partitions counts as one that owns none.
    SilenceIsAck,
    /// In a consumer group, any member epoch is accepted.
    AcceptStaleEpoch,
    /// In a consumer group, partitions that are pending revocation are not read back after a failover.
    ForgetRevocation,
    /// In a consumer group, the group epoch is not bumped when a member is removed.
    SkipBump,
    /// In a share partition, records that a member has are acquired again with those beside them.
    GiveTwice,
    /// In a share partition, a record that is delivered again keeps its delivery count.
    KeepCount,
    /// In a share partition, any member may acknowledge records that one has.
    TakeFromAnybody,
    /// In a share partition, records that are done with are not read back after a failover.
    ForgetDone,
    /// In a share partition, the end of a session releases nothing.
    KeepLocksOfSession,
}

#[cfg(any(test, feature = "planted"))]
thread_local! {
    pub(crate) static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in all coordinators of this thread; `None` removes it.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

#[cfg(any(test, feature = "planted"))]
pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

#[cfg(not(any(test, feature = "planted")))]
#[inline]
pub(crate) fn planted(_bug: Bug) -> bool {
    false
}
