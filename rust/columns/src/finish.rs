//! Conversion of a builder's columns to Arrow arrays.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::batch::{ColumnBatch, OffsetSpan};
use crate::builder::BatchBuilder;
use crate::headers::HeaderParts;
use crate::pool::PooledVec;
use crate::schema::{ColumnSet, header_field, header_fields};
use crate::write::ByteParts;

impl BatchBuilder {
    /// Finishes the batch and starts the next one. Never fails; without rows the batch is empty.
    pub fn finish(&mut self) -> ColumnBatch {
        let rows = std::mem::take(&mut self.rows);
        let spans = std::mem::take(&mut self.spans);
        let timestamp_types = std::mem::take(&mut self.timestamp_types);
        (self.bytes, self.refused) = (0, false);
        let filtered = std::mem::take(&mut self.filtered);
        let mut memory_bytes = 0;
        let mut arrays = Vec::with_capacity(self.schema.fields().len());
        for (column, array) in COLUMNS {
            let typed = self.typed.as_mut().is_some_and(|typed| typed.finish(column, &mut arrays, &mut memory_bytes));
            if !typed && self.columns.contains(column) {
                arrays.push(array(self, rows, &spans, &timestamp_types, &mut memory_bytes));
            }
        }
        // SAFETY: the arrays are the schema's columns in its order, each of `rows` rows.
        let record_batch = unsafe { RecordBatch::new_unchecked(self.schema(), arrays, rows) };
        let (mut refused, mut dropped, mut with_nulls) = (None, 0, 0);
        if let Some(typed) = &mut self.typed {
            refused = typed.finish_refused();
            (dropped, with_nulls) = (typed.dropped.drain(..).len(), std::mem::take(&mut typed.with_nulls));
        }
        ColumnBatch { record_batch, spans, memory_bytes, refused, dropped, with_nulls, filtered }
    }
}

type MakeArray = fn(&mut BatchBuilder, usize, &[OffsetSpan], &[(i32, usize)], &mut usize) -> ArrayRef;

const COLUMNS: [(ColumnSet, MakeArray); 8] = [
    (ColumnSet::KEY, |builder, rows, _, _, memory| {
        Arc::new(binary(builder.keys.finish(rows, &builder.pool), rows, memory))
    }),
    (ColumnSet::VALUE, |builder, rows, _, _, memory| {
        Arc::new(binary(builder.values.finish(rows, &builder.pool), rows, memory))
    }),
    (ColumnSet::TOPIC, |builder, _, spans, _, _| {
        Arc::new(builder.topic.column(&runs(spans, |span| Arc::clone(&span.topic)), &builder.pool))
    }),
    (ColumnSet::PARTITION, |builder, _, spans, _, _| {
        Arc::new(builder.partition.column(&runs(spans, |span| span.partition), &builder.pool))
    }),
    (ColumnSet::OFFSET, |builder, rows, _, _, memory| {
        Arc::new(Int64Array::new(scalars(builder.offsets.finish(rows, &builder.pool), rows, memory), None))
    }),
    (ColumnSet::TIMESTAMP, |builder, rows, _, _, memory| {
        let micros = scalars(builder.timestamps.finish(rows, &builder.pool), rows, memory);
        Arc::new(TimestampMicrosecondArray::new(micros, None).with_timezone("UTC"))
    }),
    (ColumnSet::TIMESTAMP_TYPE, |builder, _, _, timestamp_types, _| {
        Arc::new(builder.timestamp_type.column(timestamp_types, &builder.pool))
    }),
    (ColumnSet::HEADERS, |builder, rows, _, _, memory| {
        Arc::new(headers(builder.headers.finish(rows, &builder.pool), rows, memory))
    }),
];

fn runs<T: PartialEq>(spans: &[OffsetSpan], of: impl Fn(&OffsetSpan) -> T) -> Vec<(T, usize)> {
    let mut runs: Vec<(T, usize)> = Vec::new();
    for span in spans {
        match runs.last_mut() {
            Some((value, rows)) if *value == of(span) => *rows += span.rows,
            _ => runs.push((of(span), span.rows)),
        }
    }
    runs
}

fn scalars<T: arrow_buffer::ArrowNativeType>(values: PooledVec, count: usize, memory: &mut usize) -> ScalarBuffer<T> {
    *memory += values.capacity();
    ScalarBuffer::new(values.into_buffer(), 0, count)
}

fn offsets(values: PooledVec, rows: usize, memory: &mut usize) -> OffsetBuffer<i32> {
    // SAFETY: a column's first offset is 0, and each further offset is the column's length at the end of that row,
    // which the builder's limits keep below 2 GiB.
    unsafe { OffsetBuffer::new_unchecked(scalars(values, rows + 1, memory)) }
}

fn binary(parts: ByteParts, rows: usize, memory: &mut usize) -> BinaryArray {
    *memory += parts.data.capacity();
    let offsets = offsets(parts.offsets, rows, memory);
    // SAFETY: the offsets grow from 0 to the length of the data, and there is a bit for every row.
    unsafe { BinaryArray::new_unchecked(offsets, parts.data.into_buffer(), parts.nulls) }
}

fn headers(parts: HeaderParts, rows: usize, memory: &mut usize) -> ListArray {
    let children = parts.children;
    *memory += parts.keys.data.capacity();
    let key_offsets = offsets(parts.keys.offsets, children, memory);
    // SAFETY: the offsets are valid as in `binary`; each key was made UTF-8 when it was appended.
    let keys = unsafe { StringArray::new_unchecked(key_offsets, parts.keys.data.into_buffer(), None) };
    let values = binary(parts.values, children, memory);
    let entries: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values)];
    let no_nulls: Option<NullBuffer> = None;
    // SAFETY: the arrays match the fields, each of `children` rows.
    let entries = unsafe { StructArray::new_unchecked_with_length(header_fields(), entries, no_nulls, children) };
    let list_offsets = offsets(parts.list_offsets, rows, memory);
    ListArray::new(Arc::new(header_field()), list_offsets, Arc::new(entries), parts.nulls)
}
