//! Growing columns of fixed width: numbers, times and booleans.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, Time32MillisecondArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::TimeUnit;
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

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows);
        self.rows = rows;
    }

    fn finish<T: ArrowNativeType>(&mut self, finishing: &mut Finishing<'_>) -> (ScalarBuffer<T>, Option<NullBuffer>) {
        const { assert!(size_of::<T>() == WIDTH) };
        let rows = std::mem::take(&mut self.rows);
        let values = finishing.buffer(&mut self.values, rows * WIDTH);
        (ScalarBuffer::new(values, 0, rows), self.validity.finish(rows))
    }
}

impl Fixed<1> {
    pub(crate) fn finish_int8(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Int8Array::new(values, nulls))
    }
}

impl Fixed<2> {
    pub(crate) fn finish_int16(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Int16Array::new(values, nulls))
    }
}

impl Fixed<4> {
    pub(crate) fn finish_int32(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Int32Array::new(values, nulls))
    }

    pub(crate) fn finish_uint32(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(UInt32Array::new(values, nulls))
    }

    pub(crate) fn finish_float32(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Float32Array::new(values, nulls))
    }

    pub(crate) fn finish_date(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Date32Array::new(values, nulls))
    }

    pub(crate) fn finish_time(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Time32MillisecondArray::new(values, nulls))
    }
}

impl Fixed<8> {
    pub(crate) fn finish_int64(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Int64Array::new(values, nulls))
    }

    pub(crate) fn finish_uint64(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(UInt64Array::new(values, nulls))
    }

    pub(crate) fn finish_duration(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(DurationMicrosecondArray::new(values, nulls))
    }

    pub(crate) fn finish_float64(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Float64Array::new(values, nulls))
    }

    pub(crate) fn finish_time(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(Time64MicrosecondArray::new(values, nulls))
    }

    pub(crate) fn finish_timestamp(
        &mut self,
        unit: TimeUnit,
        zone: Option<&Arc<str>>,
        finishing: &mut Finishing<'_>,
    ) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        match unit {
            TimeUnit::Nanosecond => {
                Arc::new(TimestampNanosecondArray::new(values, nulls).with_timezone_opt(zone.cloned()))
            }
            _ => Arc::new(TimestampMicrosecondArray::new(values, nulls).with_timezone_opt(zone.cloned())),
        }
    }
}

impl Fixed<16> {
    pub(crate) fn finish_decimal(&mut self, (precision, scale): (u8, i8), finishing: &mut Finishing<'_>) -> ArrayRef {
        let (values, nulls) = self.finish(finishing);
        Arc::new(
            Decimal128Array::new(values, nulls).with_data_type(arrow_schema::DataType::Decimal128(precision, scale)),
        )
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
