//! The part of a member that both protocols have: its settings, its status, and [`MemberBase`], which owns its structs.

mod committing;
mod config;
mod find_coordinator;
mod member_base;
mod revocation;
mod status;

pub(crate) use committing::Committing;
pub use config::MemberConfig;
pub(crate) use find_coordinator::{FindCoordinator, FoundCoordinator};
pub(crate) use member_base::{Exit, MemberBase};
pub(crate) use revocation::{Revocation, RevocationStep};
pub use status::{Reserved, Status};
