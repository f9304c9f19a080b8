//! `ByteColumn`: keys, values or headers of Python's records as an Arrow column.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use monedula_columns::{OutOfMemory, refusable};

/// See the [module](self). It grows by memory that may be refused, where Arrow's builders would end the process.
pub(super) struct ByteColumn {
    bytes: Vec<u8>,
    ends: Vec<i64>,
    present: Vec<bool>,
}

impl Default for ByteColumn {
    fn default() -> Self {
        Self { bytes: Vec::new(), ends: vec![0], present: Vec::new() }
    }
}

impl ByteColumn {
    #[inline]
    pub(super) fn push(&mut self, bytes: Option<&[u8]>) -> Result<(), OutOfMemory> {
        let given = bytes.unwrap_or_default();
        reserve(&mut self.bytes, given.len())?;
        reserve(&mut self.ends, 1)?;
        reserve(&mut self.present, 1)?;
        self.bytes.extend_from_slice(given);
        self.ends.push(self.bytes.len() as i64);
        self.present.push(bytes.is_some());
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.present.len()
    }

    pub(super) fn finish(self) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        let nulls = NullBuffer::from(self.present);
        Arc::new(LargeBinaryArray::new(offsets, Buffer::from(self.bytes), Some(nulls)))
    }
}

#[inline]
pub(super) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    if items.capacity() - items.len() < more && refusable(|| items.try_reserve(more)).is_err() {
        return Err(OutOfMemory { bytes: (items.len() + more) * size_of::<T>() });
    }
    Ok(())
}
