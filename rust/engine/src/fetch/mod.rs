//! Fetching: what is asked of which broker, at which offset, and what of the answers counts.
//!
//! [`FetchMachine`] is the machine; the contract between it and its driver is in its documentation. Terms of this
//! module:
//!
//! - A *reading* of a partition goes from one position on. The driver begins a new one with each assignment and each
//!   seek, and gives it an id. Everything that is fetched or looked up carries that id, and what comes for an older
//!   reading is dropped: an offset alone would not do, since a seek may go back to where a fetch in flight already is.
//! - A *lookup* is the ListOffsets or OffsetForLeaderEpoch call that a partition waits for.
//! - A [`Fault`] is why a partition is no longer fetched.

mod answer;
mod commands;
mod config;
mod fault;
mod io;
mod list_offsets;
mod machine;
mod metadata_update;
mod node;
mod offset_for_leader_epoch;
mod partition;
mod partition_table;
mod requests;
mod session;

pub use config::{FetchConfig, ResetPolicy};
pub use fault::Fault;
pub use io::{Aborted, EpochEnd, FetchPlan, Fetched, Input, ListOffsetsAnswer, Output, Start};
pub use machine::FetchMachine;
pub use node::Demand;
pub use session::SessionPartition;

/// Names one assignment of a partition, from [`Input::Assign`] to [`Input::Unassign`]; never used twice.
type AssignmentId = u32;
