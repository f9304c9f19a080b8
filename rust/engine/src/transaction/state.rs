//! The states of a producer's session, and which may follow which.

use crate::named::named;

named! {
    /// The state of a producer session. The names are those of Java's TransactionManager.
    pub enum SessionState {
        /// The session has no producer id.
        Uninitialized,
        /// The session requests a producer id, or a higher epoch of the one it has.
        Initializing,
        /// The session has a producer id. Without a `transactional.id` it stays here.
        Ready,
        /// A transaction is open. The coordinator learns of it with its first partition or group.
        InTransaction,
        /// The transaction is being committed. It cannot be aborted any more.
        Committing,
        /// The transaction is being aborted.
        Aborting,
        /// The transaction can only be aborted.
        AbortableError,
        /// An error that no retry can resolve: the producer cannot be used any more.
        Fatal,
    }
}

impl SessionState {
    /// The states that may follow this one. docs/design/transactions.md has the same table, and a test compares the
    /// two.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Uninitialized => &[Self::Initializing, Self::Fatal],
            // Back to Uninitialized if the user may not use the id: permissions may be granted later.
            Self::Initializing => &[Self::Ready, Self::Uninitialized, Self::Fatal],
            Self::Ready => &[Self::InTransaction, Self::Initializing, Self::Fatal],
            Self::InTransaction => &[Self::Committing, Self::Aborting, Self::AbortableError, Self::Fatal],
            // Initializing if the epoch has to be bumped afterwards (KIP-360).
            Self::Committing => &[Self::Ready, Self::Initializing, Self::AbortableError, Self::Fatal],
            Self::Aborting => &[Self::Ready, Self::Initializing, Self::Fatal],
            Self::AbortableError => &[Self::Aborting, Self::Fatal],
            Self::Fatal => &[],
        }
    }
}
