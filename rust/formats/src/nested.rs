//! Growing columns of structs, lists and maps.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{FieldRef, Fields};
use monedula_columns::{BufferPool, Offsets, Validity};

use crate::column::{Column, Finishing};
use crate::names::Names;

/// A struct: one child for each field. Between two rows, all children have as many rows as the struct.
pub(crate) struct Structs {
    pub(crate) fields: Fields,
    pub(crate) children: Vec<Column>,
    pub(crate) names: Names,
    validity: Validity,
    rows: usize,
    /// Number of children that already have the row in progress.
    filled: usize,
}

impl Structs {
    pub(crate) fn new(fields: Fields, children: Vec<Column>) -> Self {
        let names = Names::new(fields.iter().map(|field| field.name().as_str()));
        Self { fields, children, names, validity: Validity::default(), rows: 0, filled: 0 }
    }

    #[inline(always)]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Counts a child that got its value of the row in progress.
    #[inline(always)]
    pub(crate) fn filled_one(&mut self) {
        self.filled += 1;
    }

    /// Ends a row: missing fields become null.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        if self.filled != self.children.len() {
            self.fill();
        }
        self.rows += 1;
        self.filled = 0;
        debug_assert!(self.children.iter().all(|child| child.rows() == self.rows));
    }

    fn fill(&mut self) {
        for child in &mut self.children {
            if child.rows() == self.rows {
                child.push_null();
            }
        }
    }

    /// Ends a row that has every field.
    #[inline(always)]
    pub(crate) fn end_full_row(&mut self) {
        self.rows += 1;
        debug_assert!(self.children.iter().all(|child| child.rows() == self.rows), "a field has no value");
    }

    pub(crate) fn push_null(&mut self) {
        self.validity.set_null(self.rows);
        self.end_row();
    }

    /// Appends rows of a finished column.
    pub(crate) fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        let structs = array.as_struct();
        for (child, array) in self.children.iter_mut().zip(structs.columns()) {
            child.extend(array, rows.clone());
        }
        self.validity.extend(self.rows, structs.nulls(), rows.clone());
        self.rows += rows.len();
    }

    /// Cuts the column back to `rows` rows, and drops a row in progress.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.children.iter_mut().for_each(|child| child.truncate(rows));
        self.validity.truncate(rows);
        (self.rows, self.filled) = (rows, 0);
    }

    pub(crate) fn finish(&mut self, finishing: &mut Finishing<'_>) -> StructArray {
        let rows = std::mem::take(&mut self.rows);
        let nulls = self.validity.finish(rows);
        if self.children.is_empty() {
            return StructArray::new_empty_fields(rows, nulls);
        }
        let arrays = self.children.iter_mut().map(|child| child.finish(finishing)).collect();
        StructArray::new(self.fields.clone(), arrays, nulls)
    }
}

/// Rows of lists or maps: the end of each row's elements, and the null rows.
struct ListRows {
    offsets: Offsets,
    validity: Validity,
    rows: usize,
}

impl ListRows {
    fn new(pool: &BufferPool) -> Self {
        Self { offsets: Offsets::new(pool), validity: Validity::default(), rows: 0 }
    }

    /// Ends a row at a total of `elements`. Returns false if these are too many for 32-bit offsets.
    #[must_use]
    #[inline]
    fn end_row(&mut self, elements: usize) -> bool {
        let Ok(end) = i32::try_from(elements) else { return false };
        self.offsets.push(self.rows, end);
        self.rows += 1;
        true
    }

    fn push_null(&mut self, elements: usize) {
        let row = self.rows;
        if self.end_row(elements) {
            self.validity.set_null(row);
        }
    }

    /// Appends rows of a finished column behind a total of `elements`. Returns the elements that these rows have.
    fn extend(
        &mut self,
        elements: usize,
        ends: &[i32],
        nulls: Option<&NullBuffer>,
        rows: Range<usize>,
    ) -> Range<usize> {
        self.offsets.extend(self.rows, elements, &ends[rows.start..=rows.end]);
        self.validity.extend(self.rows, nulls, rows.clone());
        self.rows += rows.len();
        ends[rows.start] as usize..ends[rows.end] as usize
    }

    /// Cuts the rows back to `rows`, and returns how many elements these have.
    fn truncate(&mut self, rows: usize) -> usize {
        self.validity.truncate(rows);
        self.rows = rows;
        self.offsets.start(rows)
    }

    fn finish(&mut self, finishing: &mut Finishing<'_>) -> (OffsetBuffer<i32>, Option<NullBuffer>) {
        let rows = std::mem::take(&mut self.rows);
        let offsets = finishing.counted(self.offsets.finish(rows, finishing.pool));
        (offsets, self.validity.finish(rows))
    }
}

/// A list column: offsets into its only child.
pub(crate) struct Lists {
    field: FieldRef,
    pub(crate) child: Box<Column>,
    rows: ListRows,
}

impl Lists {
    pub(crate) fn new(field: FieldRef, child: Column, pool: &BufferPool) -> Self {
        Self { field, child: Box::new(child), rows: ListRows::new(pool) }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows.rows
    }

    /// Ends a row, which has the elements appended to the child since the last one. Returns false if there are too many
    /// for 32-bit offsets.
    #[must_use]
    pub(crate) fn end_row(&mut self) -> bool {
        self.rows.end_row(self.child.rows())
    }

    pub(crate) fn push_null(&mut self) {
        self.rows.push_null(self.child.rows());
    }

    /// Appends rows of a finished column.
    pub(crate) fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        let lists = array.as_list::<i32>();
        let elements = self.rows.extend(self.child.rows(), lists.value_offsets(), lists.nulls(), rows);
        self.child.extend(lists.values(), elements);
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.child.truncate(self.rows.truncate(rows));
    }

    pub(crate) fn finish(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (offsets, nulls) = self.rows.finish(finishing);
        let child = self.child.finish(finishing);
        Arc::new(ListArray::new(Arc::clone(&self.field), offsets, child, nulls))
    }
}

/// A map column: offsets into keys and values.
pub(crate) struct Maps {
    entries: FieldRef,
    entry_fields: Fields,
    pub(crate) keys: Box<Column>,
    pub(crate) values: Box<Column>,
    rows: ListRows,
}

impl Maps {
    pub(crate) fn new(
        entries: FieldRef,
        entry_fields: Fields,
        (keys, values): (Column, Column),
        pool: &BufferPool,
    ) -> Self {
        let (keys, values) = (Box::new(keys), Box::new(values));
        Self { entries, entry_fields, keys, values, rows: ListRows::new(pool) }
    }

    /// Appends a key to a map with text keys. Returns false if it would exceed 32-bit offsets.
    #[must_use]
    #[inline(always)]
    pub(crate) fn push_key(&mut self, key: &str) -> bool {
        match &mut *self.keys {
            Column::Utf8(texts) => texts.push(key),
            _ => false,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows.rows
    }

    /// Same as [`Lists::end_row`].
    #[must_use]
    pub(crate) fn end_row(&mut self) -> bool {
        self.rows.end_row(self.keys.rows())
    }

    pub(crate) fn push_null(&mut self) {
        self.rows.push_null(self.keys.rows());
    }

    /// Appends rows of a finished column.
    pub(crate) fn extend(&mut self, array: &dyn Array, rows: Range<usize>) {
        let maps = array.as_map();
        let entries = self.rows.extend(self.keys.rows(), maps.value_offsets(), maps.nulls(), rows);
        self.keys.extend(maps.keys(), entries.clone());
        self.values.extend(maps.values(), entries);
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        let entries = self.rows.truncate(rows);
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }

    pub(crate) fn finish(&mut self, finishing: &mut Finishing<'_>) -> ArrayRef {
        let (offsets, nulls) = self.rows.finish(finishing);
        let columns = vec![self.keys.finish(finishing), self.values.finish(finishing)];
        let entries = StructArray::new(self.entry_fields.clone(), columns, None);
        Arc::new(MapArray::new(Arc::clone(&self.entries), offsets, entries, nulls, false))
    }
}
