//! A producer's id and epoch, and its transactions (KIP-98, 360, 447, 890). What Java's TransactionManager does.
//!
//! `ProducerSession` is the machine: it gets the producer id, adds partitions and groups to a transaction, ends it, and
//! knows when another producer has taken over. The delivery machine ([`crate::produce`]) asks for an identity and for
//! partitions to be added; the driver passes these requests on to the session.

mod answers;
mod end_txn;
mod epoch_bump;
mod error_codes;
mod io;
mod session;
mod state;
mod verbs;
mod wire;

pub use crate::group::{CallId, Target, Ticket};
pub use error_codes::{Reaction, known_errors, reaction};
pub use io::{
    Call, CallFailure, Ending, GroupMetadata, Input, Output, SessionConfig, SessionEvent, TransactionError,
    TransactionResponse,
};
pub use session::ProducerSession;
pub use state::SessionState;
