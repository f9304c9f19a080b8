//! Membership of a consumer group, under either protocol: [`classic`], where members join, and one of them assigns, and
//! [`consumer`] (KIP-848), where the coordinator assigns. Two machines of one shape. What both do in the same way stands here:
//! plain parts, owned by each machine, which decides what they are for; and the words that both say.

pub mod classic;
pub mod consumer;
mod effect;
mod first_seen;
mod heartbeat_interval;
mod offset_commit;
mod timers;
mod topic_ids;
mod words;

pub use effect::Effect;
pub(crate) use first_seen::FirstSeen;
pub(crate) use heartbeat_interval::Cadence;
pub(crate) use offset_commit::{Commits, UNKNOWN_TOPIC_ATTEMPTS, Whose};
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
