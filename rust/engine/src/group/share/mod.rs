//! Membership of a share group (KIP-932): the coordinator assigns, and an assignment is taken at once. There is nothing
//! to revoke, to commit or to acknowledge, because several members read the same partition, and the partition's leader
//! knows what each of them holds.

mod error_codes;
mod leave_group;
mod member;
mod share_group_heartbeat;

pub use error_codes::{api, known_errors, reaction};
pub use member::{ShareMember, ShareMemberConfig, ShareStatus};

pub use crate::group::state::ShareState;
