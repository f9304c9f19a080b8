//! Bugs that tests plant, to see that the model check and the engine's simulation find them. Outside of tests there are none.

/// What a coordinator could do wrong.
#[cfg_attr(not(feature = "planted"), expect(unreachable_pub, reason = "public where others plant them"))]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Of a classic group: a sync is answered before the leader has assigned.
    AnswerSyncEarly,
    /// Of a classic group: a new generation has the old one's number.
    KeepGeneration,
    /// Of a classic group: who has not joined in time stays.
    KeepLate,
    /// Of a classic group: its first member is not read back after a failover.
    ForgetMember,
    /// A partition is given before its last owner has said that it has given it back.
    GiveBeforeReported,
    /// A heartbeat that does not tell what is owned is taken for one that owns nothing.
    SilenceIsAck,
    /// Any epoch is accepted.
    AcceptStaleEpoch,
    /// What is being given back is not read back after a failover.
    ForgetRevocation,
    /// The group's epoch stays when a member is gone.
    SkipBump,
}

#[cfg(any(test, feature = "planted"))]
thread_local! {
    pub(super) static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// From here on, coordinators of this thread have this bug, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

#[cfg(any(test, feature = "planted"))]
pub(super) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

#[cfg(not(any(test, feature = "planted")))]
#[inline]
pub(super) fn planted(_bug: Bug) -> bool {
    false
}
