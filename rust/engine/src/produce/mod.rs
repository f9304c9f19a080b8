//! Delivery of record batches: when a batch is closed, which request carries it, what is repeated, split or given up.
//!
//! `ProduceMachine` sees batches, never bytes: the driver (`monedula-client`) appends records to the open batch of a
//! partition and tells what became of it. For every partition the batches stand in a queue in the order of their first
//! records; the machine keeps that order whatever fails. Records that cannot be in a batch yet stand in [`Lines`] before.

mod answers;
mod giving_up;
mod io;
mod lines;
mod machine;
mod numbers;
mod partitioner;
mod queue;
mod reactions;
mod sending;
mod sticky;

pub use io::{
    Acknowledged, Acks, Batch, BatchId, Identity, Input, Output, PartitionAnswer, ProduceConfig, RequestFailure,
    RequestId, SendFault, Sending, Ticket, WakeAt,
};
pub use lines::{Lines, Place};
pub use machine::ProduceMachine;
pub use partitioner::{Partitioner, partition_of};
pub use reactions::{REACTIONS, Reaction, reaction};
pub use sticky::{Load, draw_partition};
