//! Share partitions (KIP-932): which member of a share group has which records of a partition.
//!
//! A [`SharePartition`] is the state of one partition for one group: a pure state machine of its leader, which is read
//! back from its last [`Snapshot`] in `__share_group_state` when it is used first, and dropped when the leader changes.
//! A [`ShareSessions`] remembers the partitions that a member fetches. The groups themselves, their members and
//! assignments, are in [`groups`](crate::groups).

mod acknowledgement;
mod acquisition;
mod dead_letter;
mod fetch;
mod key;
mod limits;
mod partition;
mod partitions;
mod run;
mod sessions;
mod settings;
mod snapshot;
mod state_batch;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;

pub(crate) use acknowledgement::Acknowledgement;
pub(crate) use acquisition::{Acquired, Acquisition};
pub(crate) use dead_letter::{DeadLetter, DeadLetterCause};
pub(crate) use fetch::{ShareFetch, ShareFetched, ShareWanted};
pub(crate) use key::ShareKey;
pub(crate) use limits::ShareLimits;
pub(crate) use partition::SharePartition;
pub(crate) use partitions::SharePartitions;
pub(crate) use sessions::{FINAL_EPOCH, INITIAL_EPOCH, SessionKey, SessionTopics, ShareSessions};
pub(crate) use settings::{OffsetReset, ShareSettings};
pub(crate) use snapshot::{Snapshot, read_snapshot, snapshot_record};
