//! Divides the rows of a chunk by topic.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::columns::Values;
use super::progress::Chunk;
use super::report::Report;
use crate::error::ClientError;

/// The chunk of `rows` rows from `first_row` on. Rows that are not valid records fail, and are not in it.
pub(in crate::producer) fn plan(
    values: &Values<'_>,
    default: Option<&Arc<str>>,
    report: &Report,
    first_row: usize,
    rows: usize,
) -> Chunk {
    let first_table_row = report.add_rows(rows as u64);
    let mut chunk = Chunk { runs: VecDeque::new(), drawn: Vec::new(), rows, first_row, first_table_row };
    let all = first_row as u32..(first_row + rows) as u32;
    let accepted = |row: &u32| match values.refusal(*row as usize) {
        Some(refusal) => {
            report.refused(first_table_row + u64::from(*row - first_row as u32), 1, refusal);
            false
        }
        None => true,
    };
    let all: Vec<u32> =
        if values.may_refuse(&(first_row..first_row + rows)) { all.filter(accepted).collect() } else { all.collect() };
    let Some(topics) = &values.topic else {
        chunk.runs.extend(default.map(|topic| (topic.clone(), all)));
        return chunk;
    };
    let mut run_of_topic: HashMap<&[u8], usize> = HashMap::new();
    for row in all {
        let bytes = topics.get(row as usize).or_else(|| default.map(|topic| topic.as_bytes()));
        let Some(bytes) = bytes else {
            report.refused(chunk.table_row(row), 1, ClientError::Argument("the row has no topic".into()));
            continue;
        };
        let run = *run_of_topic.entry(bytes).or_insert(chunk.runs.len());
        if run == chunk.runs.len() {
            // Rows whose topic is not UTF-8 were refused.
            chunk.runs.push_back((String::from_utf8_lossy(bytes).into(), Vec::new()));
        }
        chunk.runs[run].1.push(row);
    }
    chunk
}
