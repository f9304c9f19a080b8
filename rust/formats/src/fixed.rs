//! Growing columns of fixed width: numbers, times and booleans.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use monedula_columns::{BufferPool, Growing, Validity};

use crate::column::Finishing;

pub(crate) struct Fixed<const WIDTH: usize> {
    values: Growing,
    validity: Validity,
    rows: usize,
}

impl<const WIDTH: usize> Fixed<WIDTH> {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        Self { values: Growing::new(pool), validity: Validity::default(), rows: 0 }
    }

    #[inline(always)]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: [u8; WIDTH]) {
        let at = self.rows * WIDTH;
        if at + WIDTH > self.values.capacity() {
            self.values.reserve(at, WIDTH);
        }
        self.values.bytes_mut()[at..at + WIDTH].copy_from_slice(&value);
        self.rows += 1;
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.validity.set_null(self.rows);
        self.push([0; WIDTH]);
    }

    /// Appends rows of a finished column.
    pub(crate) fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        let data = array.to_data();
        let first = data.offset() * WIDTH;
        let values = &data.buffers()[0][first + rows.start * WIDTH..first + rows.end * WIDTH];
        let at = self.rows * WIDTH;
        self.values.reserve(at, values.len());
        self.values.bytes_mut()[at..at + values.len()].copy_from_slice(values);
        self.validity.extend(self.rows, array.nulls(), rows.clone());
        self.rows += rows.len();
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows);
        self.rows = rows;
    }

    pub(crate) fn finish<T: ArrowPrimitiveType>(&mut self, finishing: &mut Finishing<'_>) -> PrimitiveArray<T> {
        const { assert!(size_of::<T::Native>() == WIDTH) };
        let rows = std::mem::take(&mut self.rows);
        let values = finishing.buffer(&mut self.values, rows * WIDTH);
        PrimitiveArray::new(ScalarBuffer::new(values, 0, rows), self.validity.finish(rows))
    }
}

/// Booleans, one bit each.
pub(crate) struct Bits {
    bits: Growing,
    validity: Validity,
    rows: usize,
}

impl Bits {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        Self { bits: Growing::new(pool), validity: Validity::default(), rows: 0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn push(&mut self, value: bool) {
        let (byte, bit) = (self.rows / 8, self.rows % 8);
        if byte >= self.bits.capacity() {
            self.bits.reserve(byte, 1);
        }
        // Clear or set explicitly: the memory is recycled, and this row may have been taken back before.
        let target = &mut self.bits.bytes_mut()[byte];
        *target = *target & !(1 << bit) | u8::from(value) << bit;
        self.rows += 1;
    }

    pub(crate) fn push_null(&mut self) {
        self.validity.set_null(self.rows);
        self.push(false);
    }

    /// Appends rows of a finished column.
    pub(crate) fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        let booleans = array.as_boolean();
        self.validity.extend(self.rows, booleans.nulls(), rows.clone());
        rows.for_each(|row| self.push(booleans.value(row)));
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows);
        self.rows = rows;
    }

    pub(crate) fn finish(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let rows = std::mem::take(&mut self.rows);
        let bits = finishing.buffer(&mut self.bits, rows.div_ceil(8));
        Arc::new(BooleanArray::new(BooleanBuffer::new(bits, 0, rows), self.validity.finish(rows)))
    }
}
