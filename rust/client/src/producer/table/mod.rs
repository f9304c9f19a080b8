//! Arrow tables as records, without an object for each row: columns, chunks of rows, and the report of their outcomes.

mod columns;
mod progress;
mod report;

pub(super) use columns::ColumnValues;
pub use columns::{Columns, is_row_number};
pub(super) use progress::{Chunk, Stopped};
pub(super) use report::{BatchRows, Rows};
pub use report::{Report, Summary};
