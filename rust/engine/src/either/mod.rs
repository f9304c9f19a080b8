//! What a member of a group does in the same way under either protocol, [`crate::group`] and [`crate::membership`]: plain parts,
//! owned by each machine, which decides what they are for; and the words that both say.

mod cadence;
mod commits;
mod effect;
mod timers;
mod words;

pub(crate) use cadence::Cadence;
pub(crate) use commits::{Commits, Whose};
pub use effect::Effect;
pub(crate) use timers::Timers;
pub use words::{
    CallError, CallId, CallbackKind, CommitError, CommitOffset, Committed, Lane, PartitionCodes, Scope, Target, Ticket,
};
pub(crate) use words::{Offsets, Outcomes};
