//! Membership of a consumer group, under either protocol: [`classic`], where members join and one of them assigns, and
//! [`consumer`] (KIP-848), where the coordinator assigns. [`Member`] is one of these two machines. [`share`] has the
//! third: a member of a share group (KIP-932). The first two have a
//! `MemberBase`, in `base`: it owns small structs, which return a verdict instead of deciding. Those of commits and
//! committed offsets are in `offsets`, those of heartbeats, polls and the lease in `liveness`, and all send through the
//! `outbox`. `messages` has what goes into a member and comes out of it, `wire` its encoding.

mod base;
pub mod classic;
pub mod consumer;
mod error;
mod liveness;
mod member;
mod messages;
mod offsets;
mod outbox;
pub mod share;
mod state;
mod wire;

pub use base::{MemberConfig, Reserved, Status};
pub use error::{CallError, CommitError, GroupError};
pub use member::Member;
pub use messages::{
    Assignments, Call, CallId, CallKind, CallbackKind, CommitOffset, Committed, ConnectionPurpose, GroupEvent,
    GroupResponse, HeartbeatCall, Input, Output, PartitionCodes, Partitions, Reaction, Scope, Subscription, Target,
    Ticket, TopicIds, TopicInfo,
};
pub(crate) use messages::{are_all_known, by_topic, name_of};
pub(crate) use offsets::UNKNOWN_TOPIC_ATTEMPTS;
pub use state::{GroupProtocol, MemberState};
pub use wire::{commit_topics, committed_offsets, offset_fetch_request};
