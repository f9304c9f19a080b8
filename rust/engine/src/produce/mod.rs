//! Delivery of record batches: when a batch is closed, which request carries it, and when it is retried, split or
//! failed.
//!
//! `ProduceMachine` sees batches, never bytes: the driver (`monedula-client`) appends records to the open batch of a
//! partition, packs it, and sends it. The machine queues the batches of each partition in the order of their first
//! records, and keeps that order whatever fails. Records that cannot be in a batch yet wait in [`SendQueues`].

mod answers;
mod batches;
mod error_codes;
mod expiring;
mod io;
mod machine;
mod metadata;
mod partition_queue;
mod partitioner;
mod send_queues;
mod sending;
mod sequence_numbers;
mod sticky;

pub use error_codes::{REACTIONS, Reaction, reaction};
pub use io::{
    Acknowledged, Acks, Batch, BatchId, Input, Output, PartitionAnswer, ProduceConfig, ProducerIdentity, RequestBatch,
    RequestFailure, RequestId, SendFault, Ticket,
};
pub use machine::ProduceMachine;
pub use partitioner::{Partitioner, partition_of};
pub use send_queues::{QueuedId, SendQueues};
pub use sticky::{Load, draw_partition};
