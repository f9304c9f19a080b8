//! Who a producer is, and its transactions (KIP-98, 360, 447, 890).
//!
//! `ProducerSession` is the machine: it gets the producer id, idempotent or transactional, takes partitions and groups into
//! a transaction, ends it, and knows when another producer has taken over. The delivery machine ([`crate::produce`])
//! asks for an identity and for partitions to be taken in; the driver carries its questions here.

mod answers;
mod io;
mod reactions;
mod session;
mod state;
mod verbs;
mod wire;

pub use io::{
    Answer, Call, CallFailure, CallId, Ending, GroupMetadata, Input, Output, SessionConfig, SessionEvent, Target,
    Ticket, TransactionError,
};
pub use reactions::{REACTIONS, Reaction, reaction};
pub use session::ProducerSession;
pub use state::State;
