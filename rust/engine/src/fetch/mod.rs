//! What to fetch from whom: partitions, their positions, and the fetch sessions of each broker.
//!
//! [`FetchMachine`] is the machine; it is fed by four kinds of calls:
//! commands of the user (`assign`, `seek`, `pause`), news (`cluster_changed`, `resolved`, `validated`), the answers of
//! brokers (`fetched`, `fetch_failed`), and requests for output (`next_fetch`, `poll`, `wake_at`). After any of the first
//! three, drain `poll` and offer `next_fetch` to every node of `ready_nodes`.

mod answer;
mod fault;
mod list_offsets;
mod machine;
mod metadata_update;
mod node;
mod partition;
mod partition_table;
mod session;

pub use answer::{Aborted, Fetched};
pub use fault::Fault;
pub use machine::{FetchConfig, FetchMachine, FetchPlan, Output};
pub use node::Demand;
pub use partition::{EpochEnd, ListedOffset, ResetPolicy, Start};
pub use session::{Sent, Session, SessionRequest};

/// Names a partition from its assignment to its end; never used twice.
pub type AssignmentId = u32;
