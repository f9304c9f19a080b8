//! What a member of a group does in the same way under either protocol, [`crate::group`] and [`crate::membership`]: plain parts,
//! owned by each machine, which decides what they are for; and the words that both say.

mod cadence;
mod commits;
mod effect;
mod first_seen;
mod timers;
mod topic_ids;
mod words;

pub(crate) use cadence::Cadence;
pub(crate) use commits::{Commits, UNKNOWN_TOPIC_ATTEMPTS, Whose};
pub use effect::Effect;
pub(crate) use first_seen::FirstSeen;
pub(crate) use timers::Timers;
pub use topic_ids::TopicIds;
pub(crate) use topic_ids::{
    TOPIC_IDS_FROM, are_all_known, commit_topics, committed, fetched, id_of, lookup_topics, name_of, topic_ids,
};
pub use words::{
    CallError, CallId, CallbackKind, CommitError, CommitOffset, Committed, Lane, PartitionCodes, Scope, Target, Ticket,
    TopicInfo,
};
pub(crate) use words::{Offsets, Outcomes};
