//! Typed keys and values that were decoded ahead of the walk: the arrays of a segment, and which of its records have a
//! row in them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;

/// Rows decoded of a segment's records, and where each record's row is.
#[derive(Debug)]
pub(crate) struct DecodedSegment {
    pub(crate) key: Option<ArrayRef>,
    pub(crate) value: Option<ArrayRef>,
    pub(crate) records: Vec<DecodedRecord>,
}

/// Row of one record, if it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedRecord {
    row: u32,
    /// Bytes that the row takes in Arrow's layout; the highest bit is set if it has nulls in place of a fault.
    bytes: u32,
}

impl DecodedRecord {
    const WITH_NULLS: u32 = 1 << 31;

    /// Record without a row: left out by the condition, or not to be decoded. The walk looks at it by itself, so that it
    /// stops at the same record, and with the same error, as if nothing were decoded ahead.
    pub(crate) const NONE: Self = Self { row: u32::MAX, bytes: 0 };

    /// `None` if the row, or its size, has no place here.
    pub(crate) fn new(row: usize, bytes: usize, is_whole: bool) -> Option<Self> {
        let row = u32::try_from(row).ok().filter(|row| *row != u32::MAX)?;
        let bytes = u32::try_from(bytes).ok().filter(|bytes| bytes & Self::WITH_NULLS == 0)?;
        Some(Self { row, bytes: if is_whole { bytes } else { bytes | Self::WITH_NULLS } })
    }

    #[inline(always)]
    pub(crate) fn row(self) -> Option<usize> {
        (self.row != u32::MAX).then_some(self.row as usize)
    }

    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        (self.bytes & !Self::WITH_NULLS) as usize
    }

    #[inline(always)]
    pub(crate) fn is_whole(self) -> bool {
        self.bytes & Self::WITH_NULLS == 0
    }
}

/// First records of one batch, as far as they were looked at ahead.
#[derive(Debug, Clone)]
pub(crate) struct DecodedBatch {
    pub(crate) segment: Arc<DecodedSegment>,
    /// These records among the segment's.
    pub(crate) records: Range<usize>,
}

impl DecodedBatch {
    /// Those records from this index in the batch on.
    pub(crate) fn records_from(&self, index: u32) -> &[DecodedRecord] {
        let records = self.segment.records.get(self.records.clone()).unwrap_or_default();
        records.get(index as usize..).unwrap_or_default()
    }
}
