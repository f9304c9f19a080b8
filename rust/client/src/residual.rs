//! Rows that a bounded read keeps: the part of a condition that no range of offsets expresses.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow_array::{Int64Array, TimestampMicrosecondArray};
use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;

/// Ranges of numbers, both ends included, in ascending order, that do not overlap.
pub type Intervals = Vec<(i64, i64)>;

/// Rows of a partition: those whose offset is in one of these ranges, and whose timestamp is as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Offsets.
    pub offsets: Intervals,
    /// Timestamps in microseconds, as the column has them.
    pub timestamps_us: Intervals,
}

/// Rows to keep of each partition that is not read whole: those of any of the entries.
pub type Residual = BTreeMap<TopicPartition, Vec<Rows>>;

/// The rows of `batch` that are to be kept. The batch needs the columns `offset` and `timestamp`, unless every entry of
/// the residual has all of them.
pub fn keep(batch: ColumnBatch, residual: &Residual) -> ColumnBatch {
    let kept = ranges(&batch, residual);
    match kept.as_slice() {
        [all] if all.len() == batch.record_batch.num_rows() => batch,
        some => batch.select(some),
    }
}

fn ranges(batch: &ColumnBatch, residual: &Residual) -> Vec<Range<usize>> {
    let offsets = column::<Int64Array>(batch, "offset").map(Int64Array::values);
    let times = column::<TimestampMicrosecondArray>(batch, "timestamp").map(TimestampMicrosecondArray::values);
    let mut kept: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for span in &batch.spans {
        let end = start + span.rows;
        match residual.get(&TopicPartition::new(span.topic.clone(), span.partition)) {
            None => add(&mut kept, start..end),
            Some(wanted) => {
                let holds = |row: usize| {
                    wanted.iter().any(|rows| {
                        offsets.is_none_or(|offsets| contains(&rows.offsets, offsets[row]))
                            && times.is_none_or(|times| contains(&rows.timestamps_us, times[row]))
                    })
                };
                (start..end).filter(|&row| holds(row)).for_each(|row| add(&mut kept, row..row + 1));
            }
        }
        start = end;
    }
    kept
}

fn add(kept: &mut Vec<Range<usize>>, rows: Range<usize>) {
    match kept.last_mut() {
        Some(last) if last.end == rows.start => last.end = rows.end,
        _ if rows.is_empty() => {}
        _ => kept.push(rows),
    }
}

fn contains(intervals: &[(i64, i64)], number: i64) -> bool {
    let after = intervals.partition_point(|&(first, _)| first <= number);
    after > 0 && number <= intervals[after - 1].1
}

fn column<'a, A: 'static>(batch: &'a ColumnBatch, name: &str) -> Option<&'a A> {
    batch.record_batch.column_by_name(name)?.as_any().downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::RecordBatch;
    use arrow_schema::{DataType, Field, Schema, TimeUnit};
    use monedula_columns::OffsetSpan;

    use super::*;

    const ALL: (i64, i64) = (i64::MIN, i64::MAX);

    /// Offsets 0 to 3 of partition 0 with the timestamps 50, 10, 40, 20, and offset 7 of partition 1 with 10.
    fn batch() -> ColumnBatch {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let schema = Schema::new(vec![Field::new("offset", DataType::Int64, true), Field::new("timestamp", utc, true)]);
        let offsets = Int64Array::from(vec![0, 1, 2, 3, 7]);
        let times = TimestampMicrosecondArray::from(vec![50, 10, 40, 20, 10]).with_timezone("UTC");
        let record_batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(offsets), Arc::new(times)]);
        let span = |partition, rows, first_offset, next_offset| OffsetSpan {
            topic: "t".into(),
            partition,
            rows,
            first_offset,
            next_offset,
            leader_epoch: -1,
        };
        let spans = vec![span(0, 4, 0, 4), span(1, 1, 7, 8)];
        let record_batch = record_batch.expect("columns of the schema");
        ColumnBatch { record_batch, spans, memory_bytes: 0, refused: None, dropped: 0, with_nulls: 0, filtered: 0 }
    }

    fn kept(wanted: Vec<Rows>) -> Vec<i64> {
        let residual = Residual::from([(TopicPartition::new("t", 0), wanted)]);
        let batch = keep(batch(), &residual);
        (0..batch.record_batch.num_rows()).filter_map(|row| batch.offset_of(row)).collect()
    }

    fn rows(offsets: &[(i64, i64)], times: &[(i64, i64)]) -> Rows {
        Rows { offsets: offsets.to_vec(), timestamps_us: times.to_vec() }
    }

    #[test]
    fn a_row_is_kept_if_offset_and_time_are_in_one_entry() {
        assert_eq!(kept(vec![rows(&[ALL], &[(20, 40)])]), [2, 3, 7]);
        assert_eq!(kept(vec![rows(&[(1, 1), (3, 9)], &[ALL])]), [1, 3, 7]);
        assert_eq!(kept(vec![rows(&[(0, 0)], &[(10, 20)]), rows(&[(3, 3)], &[(20, 20)])]), [3, 7]);
    }

    #[test]
    fn a_partition_without_an_entry_is_kept_whole_and_one_without_rows_goes() {
        assert_eq!(kept(vec![]), [7]);
        assert_eq!(kept(vec![rows(&[ALL], &[ALL])]), [0, 1, 2, 3, 7]);
    }
}
