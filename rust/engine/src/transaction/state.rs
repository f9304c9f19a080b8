//! The states of a producer's session, and which may follow which.

/// Where a session stands; the names are those of the Java producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It has no producer id.
    Uninitialized,
    /// It asks for one, or for a higher epoch of the one it has.
    Initializing,
    /// It has an id. Without a `transactional.id` this is where it stays.
    Ready,
    /// A transaction is open, at least on this side: the coordinator hears of it with its first partition or group.
    InTransaction,
    /// The transaction is being committed. It cannot be aborted any more.
    Committing,
    /// It is being aborted.
    Aborting,
    /// It can only be aborted.
    AbortableError,
    /// An error that no repetition mends: the producer is of no use any more.
    Fatal,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Uninitialized,
        Self::Initializing,
        Self::Ready,
        Self::InTransaction,
        Self::Committing,
        Self::Aborting,
        Self::AbortableError,
        Self::Fatal,
    ];

    /// The states that may come after this one. docs/design/transactions.md has the same table, and a test holds one against the other.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Uninitialized => &[Self::Initializing, Self::Fatal],
            // Back, where the user was denied the id: permissions may be given later.
            Self::Initializing => &[Self::Ready, Self::Uninitialized, Self::Fatal],
            Self::Ready => &[Self::InTransaction, Self::Initializing, Self::Fatal],
            Self::InTransaction => &[Self::Committing, Self::Aborting, Self::AbortableError, Self::Fatal],
            // Initializing, where the epoch has to be raised afterwards (KIP-360).
            Self::Committing => &[Self::Ready, Self::Initializing, Self::AbortableError, Self::Fatal],
            Self::Aborting => &[Self::Ready, Self::Initializing, Self::Fatal],
            Self::AbortableError => &[Self::Aborting, Self::Fatal],
            Self::Fatal => &[],
        }
    }

    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uninitialized => "Uninitialized",
            Self::Initializing => "Initializing",
            Self::Ready => "Ready",
            Self::InTransaction => "InTransaction",
            Self::Committing => "Committing",
            Self::Aborting => "Aborting",
            Self::AbortableError => "AbortableError",
            Self::Fatal => "Fatal",
        }
    }
}
