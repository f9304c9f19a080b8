//! What to fetch from whom: partitions, their positions, and the fetch sessions of each broker.
//!
//! [`FetchMachine`] is the machine; it is fed by four kinds of calls:
//! commands of the user (`assign`, `seek`, `pause`), news (`cluster_changed`, `resolved`, `validated`), the answers of
//! brokers (`fetched`, `fetch_failed`), and requests for output (`next_fetch`, `poll`, `wake_at`). After any of the first
//! three, drain `poll` and offer `next_fetch` to every node of `ready_nodes`.

mod answer;
mod fault;
mod lookups;
mod machine;
mod news;
mod node;
mod partition;
mod session;
mod slots;

pub use answer::{Aborted, Fetched};
pub use fault::Fault;
pub use machine::{FetchConfig, FetchMachine, FetchPlan, Output};
pub use node::Demand;
pub use partition::{EpochEnd, ResetPolicy, Resolved, Start};
pub use session::{Sent, Session, SessionRequest};

/// Names a partition from its assignment to its end; never used twice.
pub type SlotId = u32;
