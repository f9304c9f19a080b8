//! Selection of some rows of a batch.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::transform::MutableArrayData;

use crate::batch::{ColumnBatch, OffsetSpan};

impl ColumnBatch {
    /// Rows of these ranges, which are in ascending order and do not overlap. One range is a slice without a copy; the
    /// rows of several are copied into memory of their own.
    ///
    /// Every span keeps its `next_offset`, whichever of its rows are left; a span without rows is left out. As with
    /// slices, the result has no refused records and no counts of them.
    #[must_use]
    pub fn select(&self, ranges: &[Range<usize>]) -> Self {
        let spans = self.spans_of(ranges);
        let (record_batch, memory_bytes) = match ranges {
            [] => (self.record_batch.slice(0, 0), 0),
            [only] => (self.record_batch.slice(only.start, only.len()), self.memory_bytes),
            several => {
                let rows = several.iter().map(Range::len).sum();
                let columns: Vec<ArrayRef> =
                    self.record_batch.columns().iter().map(|column| gather(column, several, rows)).collect();
                let memory_bytes = columns.iter().map(|column| column.get_buffer_memory_size()).sum();
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                let record_batch = RecordBatch::try_new_with_options(self.record_batch.schema(), columns, &options)
                    .expect("columns of one schema, of equally many rows");
                (record_batch, memory_bytes)
            }
        };
        Self { record_batch, spans, memory_bytes, refused: None, dropped: 0, with_nulls: 0, filtered: 0 }
    }

    fn spans_of(&self, ranges: &[Range<usize>]) -> Vec<OffsetSpan> {
        let (mut start, mut spans) = (0, Vec::new());
        for span in &self.spans {
            let end = start + span.rows;
            let within = |range: &Range<usize>| range.start.max(start)..range.end.min(end);
            let mut kept = ranges.iter().map(within).filter(|range| !range.is_empty()).peekable();
            if let Some(first) = kept.peek().cloned() {
                let skipped = first.start - start;
                let first_offset = match skipped {
                    0 => span.first_offset,
                    _ => self.offset_of(first.start).unwrap_or(span.first_offset + skipped as i64),
                };
                spans.push(OffsetSpan { rows: kept.map(|range| range.len()).sum(), first_offset, ..span.clone() });
            }
            start = end;
        }
        spans
    }
}

fn gather(column: &ArrayRef, ranges: &[Range<usize>], rows: usize) -> ArrayRef {
    let data = column.to_data();
    let mut kept = MutableArrayData::new(vec![&data], false, rows);
    for range in ranges {
        kept.try_extend(0, range.start, range.end).expect("some of a column's rows have fewer bytes than all");
    }
    make_array(kept.freeze())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BinaryArray, Int64Array};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    /// Offsets 10, 12, 14 of partition 0, then 5, 6 of partition 1.
    fn batch() -> ColumnBatch {
        let schema =
            Schema::new(vec![Field::new("value", DataType::Binary, true), Field::new("offset", DataType::Int64, true)]);
        let values = BinaryArray::from(vec![Some(&b"a"[..]), None, Some(b"cc"), Some(b""), Some(b"eee")]);
        let offsets = Int64Array::from(vec![10, 12, 14, 5, 6]);
        let record_batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(values), Arc::new(offsets)]);
        let span = |partition, rows, first_offset, next_offset| OffsetSpan {
            topic: "t".into(),
            partition,
            rows,
            first_offset,
            next_offset,
            leader_epoch: 3,
        };
        let spans = vec![span(0, 3, 10, 20), span(1, 2, 5, 7)];
        let record_batch = record_batch.expect("columns of the schema");
        ColumnBatch { record_batch, spans, memory_bytes: 100, refused: None, dropped: 0, with_nulls: 0, filtered: 0 }
    }

    fn offsets(batch: &ColumnBatch) -> Vec<i64> {
        (0..batch.record_batch.num_rows()).filter_map(|row| batch.offset_of(row)).collect()
    }

    fn shape(batch: &ColumnBatch) -> Vec<(i32, usize, i64, i64)> {
        batch.spans.iter().map(|span| (span.partition, span.rows, span.first_offset, span.next_offset)).collect()
    }

    #[test]
    fn several_ranges_are_copied_with_their_nulls_and_spans() {
        let some = batch().select(&[1..2, 4..5]);
        assert_eq!(offsets(&some), [12, 6]);
        let values = some.record_batch.column(0).as_any().downcast_ref::<BinaryArray>().expect("binary");
        assert_eq!(values.iter().collect::<Vec<_>>(), [None, Some(&b"eee"[..])]);
        assert_eq!(shape(&some), [(0, 1, 12, 20), (1, 1, 6, 7)]);
    }

    #[test]
    fn one_range_over_two_spans_is_a_slice() {
        let some = batch().select(std::slice::from_ref(&(2..4)));
        assert_eq!(offsets(&some), [14, 5]);
        assert_eq!(shape(&some), [(0, 1, 14, 20), (1, 1, 5, 7)]);
        assert_eq!(some.memory_bytes, 100);
    }

    #[test]
    fn no_range_is_an_empty_batch_of_the_same_schema() {
        let none = batch().select(&[]);
        assert_eq!((none.record_batch.num_rows(), none.spans.len()), (0, 0));
        assert_eq!(none.record_batch.schema(), batch().record_batch.schema());
    }
}
