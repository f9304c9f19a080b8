//! A request: where it comes from, what it names, its answer, and what its connection is to do.

mod call;
mod mentions;

pub use call::{Action, ConnectionId, Reply, Wire};
pub(crate) use call::{Answer, Call, Current, Origin, Ticket};
pub(crate) use mentions::{Mentions, TopicKey};
