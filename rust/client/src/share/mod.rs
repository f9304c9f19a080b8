//! The consumer of a share group (KIP-932): [`ShareConsumer`], the task that drives the engine's machines of its
//! membership and of its sessions (`driver`), and the `buffer` between that task and the user's threads, which decode the
//! acquired records into columns and decide what becomes of them. Nothing is fetched ahead of a call that waits: locks run
//! from when a broker gives records out.

mod answer_sizes;
mod assembler;
mod buffer;
mod command;
mod consumer;
mod driver;
mod fetched_rows;
mod requests;
mod telemetry;
mod undecided;

#[cfg(test)]
mod tests;

pub use command::{AcknowledgeOutcome, Scope};
pub use consumer::{ShareConsumer, ShareHealth};
pub use monedula_engine::group::share::{ShareState, ShareStatus};
pub use monedula_engine::share::{AcknowledgeError, AcknowledgeType, Decided};
pub use undecided::Undecided;
