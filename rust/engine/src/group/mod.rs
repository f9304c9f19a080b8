//! Membership of a consumer group, under either protocol: [`classic`], where members join and one of them assigns, and
//! [`consumer`] (KIP-848), where the coordinator assigns. [`Member`] is one of these two machines. This folder has what
//! they share: inputs, outputs, requests, errors, and small structs, which each machine owns in a `MemberBase` and which
//! return a verdict instead of deciding.

mod base;
mod call;
pub mod classic;
mod committing;
mod config;
pub mod consumer;
mod error;
mod event;
mod find_coordinator;
mod first_seen;
mod heartbeat_interval;
mod input;
mod lease;
mod leave;
mod member;
mod offset_commit;
mod offset_fetch;
mod outbox;
mod output;
mod poll_interval;
mod reaction;
mod revocation;
mod state;
mod status;
mod timers;
mod topic_ids;
mod types;
pub(crate) mod wire;

pub(crate) use base::MemberBase;
pub use call::{Answer, Call, CallKind, ConnectionPurpose, HeartbeatCall, Partitions};
pub(crate) use committing::Committing;
pub use config::MemberConfig;
pub use error::{CallError, CommitError, GroupError};
pub use event::GroupEvent;
pub(crate) use find_coordinator::Found;
pub(crate) use first_seen::FirstSeen;
pub use input::{Assignments, Input, Subscription};
pub(crate) use leave::Exit;
pub use member::Member;
pub(crate) use offset_commit::UNKNOWN_TOPIC_ATTEMPTS;
pub(crate) use offset_fetch::OffsetsFetched;
pub(crate) use outbox::InFlight;
pub use output::Output;
pub use reaction::Reaction;
pub(crate) use revocation::{Revocation, RevocationStep};
pub use state::{GroupProtocol, MemberState};
pub use status::{Reserved, Status};
pub(crate) use timers::Timer;
pub use topic_ids::TopicIds;
pub(crate) use topic_ids::{are_all_known, by_topic, name_of};
pub use types::{CallId, CallbackKind, CommitOffset, Committed, PartitionCodes, Scope, Target, Ticket, TopicInfo};
