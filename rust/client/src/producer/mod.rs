//! The producer: records into batches, batches to brokers, outcomes to futures.
//!
//! `accumulator` encodes records into the open batch of their partition, on the caller's thread. `driver` owns the
//! delivery machine ([`monedula_engine::produce`]) and carries out its outputs: `pack` compresses, `sender` sends,
//! `pending_topics` awaits unknown topics. `receipt` returns the outcome of each record, `failures` counts those
//! that nobody has seen.
//!
//! Imports go to the right only: `handle` (with `send_batch` and `transactions`) -> `driver` -> `accumulator`,
//! `session`, `sender`, `pack` -> `command` -> `open_batch` -> `receipt` -> `table` -> `admission`, `record`.

mod accumulator;
mod admission;
mod awaiting_metadata;
mod calls;
mod command;
mod config;
mod driver;
mod failures;
mod handle;
mod in_flight;
mod memory;
mod open_batch;
mod pack;
mod pending_topics;
mod queued_sends;
mod receipt;
mod record;
mod request;
mod send_batch;
mod sender;
mod session;
mod table;
mod telemetry;
mod transactions;

pub use admission::SendPermit;
pub use config::ProducerConfig;
pub use failures::Failures;
pub use handle::{Producer, ProducerHealth};
pub use queued_sends::{QueueFront, QueuedSends};
pub use receipt::RecordFuture;
pub use record::{Delivered, DeliveryResult, Header, Record, Refused};
pub use table::{Columns, Report, Summary, is_row_number};
