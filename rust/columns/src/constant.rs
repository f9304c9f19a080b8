//! Columns whose value repeats over many rows (topic, partition, timestampType). They are built from runs when a batch
//! is finished; consecutive batches that have a single run of the same value share one buffer.

use std::sync::Arc;

use arrow_array::{Int32Array, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use crate::pool::{BufferPool, PooledVec};

/// An int32 column built from runs of equal values.
#[derive(Default)]
pub(crate) struct ConstantInts {
    shared: Option<(i32, ScalarBuffer<i32>)>,
}

impl ConstantInts {
    pub(crate) fn column(&mut self, runs: &[(i32, usize)], pool: &BufferPool) -> Int32Array {
        let rows = runs.iter().map(|(_, rows)| rows).sum();
        let [(value, _)] = *runs else {
            return Int32Array::new(fill_ints(runs, rows, pool), None);
        };
        let shared = self.shared.take().filter(|(known, values)| *known == value && values.len() >= rows);
        let (_, values) = &*self.shared.insert(shared.unwrap_or_else(|| {
            let rows = rows.next_power_of_two();
            (value, fill_ints(&[(value, rows)], rows, pool))
        }));
        Int32Array::new(values.slice(0, rows), None)
    }
}

fn fill_ints(runs: &[(i32, usize)], rows: usize, pool: &BufferPool) -> ScalarBuffer<i32> {
    let mut values = pool.take(rows * 4);
    values.set_len(rows * 4);
    let mut rest = &mut values.whole_mut()[..rows * 4];
    for (value, rows) in runs {
        let (run, after) = rest.split_at_mut(rows * 4);
        for slot in run.chunks_exact_mut(4) {
            slot.copy_from_slice(&value.to_ne_bytes());
        }
        rest = after;
    }
    ScalarBuffer::new(values.into_buffer(), 0, rows)
}

/// A utf8 column built from runs of equal values.
#[derive(Default)]
pub(crate) struct ConstantStrings {
    shared: Option<(Arc<str>, usize, ScalarBuffer<i32>, Buffer)>,
}

impl ConstantStrings {
    pub(crate) fn column(&mut self, runs: &[(Arc<str>, usize)], pool: &BufferPool) -> StringArray {
        let rows = runs.iter().map(|(_, rows)| rows).sum::<usize>();
        let [(text, _)] = runs else {
            let (offsets, data) = fill_strings(runs, rows, pool);
            return string_array(offsets, data);
        };
        let shared = self.shared.take().filter(|(known, capacity, ..)| known == text && *capacity >= rows);
        let (_, _, offsets, data) = &*self.shared.insert(shared.unwrap_or_else(|| {
            let capacity = rows.next_power_of_two();
            // Rounding up must not exceed what 32-bit offsets can address.
            let capacity = if capacity.saturating_mul(text.len()) > i32::MAX as usize { rows } else { capacity };
            let (offsets, data) = fill_strings(&[(Arc::clone(text), capacity)], capacity, pool);
            (Arc::clone(text), capacity, offsets, data)
        }));
        string_array(offsets.slice(0, rows + 1), data.slice_with_length(0, rows * text.len()))
    }
}

fn fill_strings(runs: &[(Arc<str>, usize)], rows: usize, pool: &BufferPool) -> (ScalarBuffer<i32>, Buffer) {
    let bytes = runs.iter().map(|(text, rows)| text.len() * rows).sum();
    let mut data = pool.take(bytes);
    let mut offsets = pool.take((rows + 1) * 4);
    data.set_len(bytes);
    offsets.set_len((rows + 1) * 4);
    let mut slots = offsets.whole_mut()[4..].chunks_exact_mut(4);
    let mut at = 0;
    for (text, rows) in runs {
        repeat(&mut data, at, text.as_bytes(), *rows);
        for slot in slots.by_ref().take(*rows) {
            at += text.len();
            slot.copy_from_slice(&(at as i32).to_ne_bytes());
        }
    }
    offsets.whole_mut()[..4].fill(0);
    (ScalarBuffer::new(offsets.into_buffer(), 0, rows + 1), data.into_buffer())
}

/// Writes `text` `times` times from byte `at` on, by copies that double the filled part.
fn repeat(data: &mut PooledVec, at: usize, text: &[u8], times: usize) {
    let target = &mut data.whole_mut()[at..at + text.len() * times];
    let mut filled = text.len().min(target.len());
    target[..filled].copy_from_slice(&text[..filled]);
    while filled < target.len() {
        let copied = filled.min(target.len() - filled);
        target.copy_within(..copied, filled);
        filled += copied;
    }
}

fn string_array(offsets: ScalarBuffer<i32>, data: Buffer) -> StringArray {
    // SAFETY: the offsets grow from 0 to the length of the data, by whole strings.
    unsafe { StringArray::new_unchecked(OffsetBuffer::new_unchecked(offsets), data, None) }
}
