//! Who a producer is, and its transactions (KIP-98, 360, 447, 890).
//!
//! `ProducerSession` is the machine: it gets the producer id, idempotent or transactional, takes partitions and groups into
//! a transaction, ends it, and knows when another producer has taken over. The delivery machine ([`crate::produce`])
//! asks for an identity and for partitions to be taken in; the driver carries its questions here.

mod io;

pub use io::{
    Answer, Call, CallFailure, CallId, Ending, GroupMetadata, Input, Output, SessionConfig, Target, Ticket,
    TransactionError,
};
