//! Lanes of a run: records whose handlers may be called now, and which of them are finished.
//!
//! Workers take tasks, one or more rows of one lane; rows of one lane are handled one after the other, lanes side by
//! side. A part is a run of rows of one partition. Its rows finish in any order, and only those before the first
//! unfinished one count. In a run with transactions they count once they are in a committed one; after a seek, finished
//! ones before the new position do so too.
//!
//! The machine knows rows by their numbers. The driver owns what they are, as the payload of their part, and says
//! whether they may still be handled.

mod arena;
mod keyed_lanes;
mod lane;
mod limits;
mod machine;
mod order;
mod part;
mod partition;
mod permission;
mod reading;
mod report;
mod round;
mod rounds;
mod task;

pub use arena::Id;
pub use limits::Limits;
pub use machine::Lanes;
pub use order::Order;
pub use permission::RowPermission;
pub use reading::Reading;
pub use report::Report;
pub use round::RoundPart;
pub use task::Task;
