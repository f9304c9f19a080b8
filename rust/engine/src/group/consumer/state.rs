//! The states of a member, and which may follow which.

/// Where a member stands; the names are those of KIP-848.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It subscribes to nothing.
    Unsubscribed,
    /// It sends heartbeats of epoch 0 until one is answered.
    Joining,
    /// It has a target that it has not reached: revoking, waiting for the names of topics, or for the user's callbacks.
    Reconciling,
    /// A target is reached as far as that is possible; the next heartbeat says so, at once.
    Acknowledging,
    /// It has its target and sends heartbeats.
    Stable,
    /// It gives up what it owns before it leaves; heartbeats go on.
    PrepareLeaving,
    /// The heartbeat that leaves is to be sent, or out.
    Leaving,
    /// The coordinator does not know it any more, or not in this epoch. All is lost; after the user's callback it joins again.
    Fenced,
    /// It left because the user did not poll for `max.poll.interval.ms`; the next poll makes it join again.
    Stale,
    /// An error that no repetition mends.
    Fatal,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Unsubscribed,
        Self::Joining,
        Self::Reconciling,
        Self::Acknowledging,
        Self::Stable,
        Self::PrepareLeaving,
        Self::Leaving,
        Self::Fenced,
        Self::Stale,
        Self::Fatal,
    ];

    /// The states that may come after this one. docs/design/groups.md has the same table, and a test holds one against the other.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Unsubscribed => &[Self::Joining],
            // Unsubscribed at once: the broker lacks the protocol, and the classic one takes over.
            Self::Joining => {
                &[Self::Reconciling, Self::Stable, Self::PrepareLeaving, Self::Fenced, Self::Fatal, Self::Unsubscribed]
            }
            // Never Stable at once: what was reached has to be acknowledged.
            Self::Reconciling => &[Self::Acknowledging, Self::PrepareLeaving, Self::Fenced, Self::Fatal],
            Self::Acknowledging => &[Self::Stable, Self::Reconciling, Self::PrepareLeaving, Self::Fenced, Self::Fatal],
            Self::Stable => &[Self::Reconciling, Self::PrepareLeaving, Self::Fenced, Self::Fatal],
            // Who is fenced while leaving is where it wanted to be.
            Self::PrepareLeaving => &[Self::Leaving, Self::Unsubscribed],
            Self::Leaving => &[Self::Unsubscribed, Self::Stale],
            Self::Fenced => &[Self::Joining, Self::Unsubscribed],
            Self::Stale => &[Self::Joining, Self::Unsubscribed],
            Self::Fatal => &[Self::Unsubscribed],
        }
    }

    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsubscribed => "Unsubscribed",
            Self::Joining => "Joining",
            Self::Reconciling => "Reconciling",
            Self::Acknowledging => "Acknowledging",
            Self::Stable => "Stable",
            Self::PrepareLeaving => "PrepareLeaving",
            Self::Leaving => "Leaving",
            Self::Fenced => "Fenced",
            Self::Stale => "Stale",
            Self::Fatal => "Fatal",
        }
    }
}
