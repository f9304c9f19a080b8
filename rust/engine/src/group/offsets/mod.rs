//! The offsets of a member: those that it commits, those that it asks for, and which partitions have none because they
//! are new.

mod first_seen;
mod offset_commit;
mod offset_fetch;

pub(crate) use first_seen::FirstSeen;
pub(crate) use offset_commit::{CommitOrigin, Commits, UNKNOWN_TOPIC_ATTEMPTS};
pub(crate) use offset_fetch::{OffsetFetch, OffsetsFetched};
