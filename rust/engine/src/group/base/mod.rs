//! The part of a member that both protocols have: its settings, its status, and [`MemberBase`], which owns its structs.

mod committing;
mod config;
mod find_coordinator;
mod leave;
mod member_base;
mod revocation;
mod status;

pub(crate) use committing::Committing;
pub use config::MemberConfig;
pub(crate) use find_coordinator::Found;
pub(crate) use leave::Exit;
pub(crate) use member_base::MemberBase;
pub(crate) use revocation::{Revocation, RevocationStep};
pub use status::{Reserved, Status};
