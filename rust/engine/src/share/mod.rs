//! Reading of a share group's partitions (KIP-932): [`ShareSessions`] decides which leader is asked for records, and when
//! acknowledgements are sent and to whom; [`HeldRows`] knows the rows in the user's hands, what was decided of each and
//! until when they are locked. The membership that assigns the partitions is [`crate::group::share`].

mod acknowledgement;
mod error;
mod held_batch;
mod held_rows;
mod io;
mod node_session;
mod sessions;
mod wire;

pub use acknowledgement::{AcknowledgeType, AcknowledgedRange, Acknowledgement, AcknowledgementBatch};
pub use error::AcknowledgeError;
pub use held_batch::{HeldPart, RowRun};
pub use held_rows::{Decided, HeldRows};
pub use io::{
    AcknowledgePlan, Acquired, FetchedPartition, PlannedPartition, SessionId, ShareAnswer, ShareFetchPlan, ShareOutput,
    ShareSettings,
};
pub use sessions::ShareSessions;
