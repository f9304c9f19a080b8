//! The messages that go into a member and come out of it: inputs, outputs, events, the requests with their answers, and
//! what these carry.

mod call;
mod event;
mod input;
mod output;
mod reaction;
mod topic_ids;
mod types;

pub(crate) use call::GroupOutcome;
pub use call::{Call, CallKind, ConnectionPurpose, GroupResponse, HeartbeatCall, Partitions};
pub use event::GroupEvent;
pub use input::{Assignments, Input, Subscription};
pub use output::Output;
pub(crate) use reaction::FIND_COORDINATOR;
pub use reaction::Reaction;
pub use topic_ids::TopicIds;
pub(crate) use topic_ids::{TOPIC_IDS_FROM, are_all_known, by_topic, id_of, name_of, topic_ids};
pub use types::{CallId, CallbackKind, CommitOffset, Committed, PartitionCodes, Scope, Target, Ticket, TopicInfo};
pub(crate) use types::{Offsets, Outcomes};
