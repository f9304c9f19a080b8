//! Arrow tables as records, without an object for each row: columns, chunks of rows, and the report of their outcomes.

mod columns;
mod plan;
mod progress;
mod report;

pub use columns::Columns;
pub(super) use columns::Values;
pub(super) use plan::plan;
pub(super) use progress::{Chunk, Stopped};
pub(super) use report::{BatchRows, Rows};
pub use report::{Report, Summary};
