//! Columns of bytes and texts, and the bounds of lists, in any array type. Nulls are handled elsewhere.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, BinaryViewArray, FixedSizeBinaryArray, RunArray, StringViewArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use monedula_columns::text_of;

use super::{Fault, Written};

#[derive(Debug)]
pub(crate) struct Texts<'a> {
    values: Values<'a>,
    /// True if the column's type promises UTF-8. Not every library checks that.
    are_texts: bool,
}

#[derive(Debug)]
enum Values<'a> {
    Short(&'a [i32], &'a [u8]),
    Long(&'a [i64], &'a [u8]),
    TextViews(&'a StringViewArray),
    BinaryViews(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
    /// Dictionary or run-end encoded: the index of each row's value, and the values.
    Indexed(Vec<usize>, Box<Self>),
}

impl<'a> Texts<'a> {
    pub(crate) fn of_texts(array: &'a ArrayRef) -> Option<Self> {
        Self::of_bytes(array).filter(|texts| texts.are_texts)
    }

    /// Columns of bytes or texts.
    pub(crate) fn of_bytes(array: &'a ArrayRef) -> Option<Self> {
        let (values, are_texts) = match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                (Values::Short(array.value_offsets(), array.value_data()), true)
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                (Values::Long(array.value_offsets(), array.value_data()), true)
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                (Values::Short(array.value_offsets(), array.value_data()), false)
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                (Values::Long(array.value_offsets(), array.value_data()), false)
            }
            DataType::Utf8View => (Values::TextViews(array.as_string_view()), true),
            DataType::BinaryView => (Values::BinaryViews(array.as_binary_view()), false),
            DataType::FixedSizeBinary(_) => (Values::Fixed(array.as_fixed_size_binary()), false),
            _ => {
                let (indices, values) = indexed(array)?;
                let Self { values, are_texts } = Self::of_bytes(values)?;
                (Values::Indexed(indices, Box::new(values)), are_texts)
            }
        };
        Some(Self { values, are_texts })
    }

    /// A row's bytes; an error for invalid UTF-8 in a column of texts.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Written<&'a [u8]> {
        let bytes = self.values.get(row);
        if self.are_texts
            && let Err(error) = text_of(bytes)
        {
            return Err(Fault::new(format!(
                "the text is not UTF-8: {error}. Mend it, or cast the column to binary and write it as such"
            )));
        }
        Ok(bytes)
    }

    /// Bytes of a row, not checked to be a text.
    #[inline]
    pub(crate) fn bytes(&self, row: usize) -> &'a [u8] {
        self.values.get(row)
    }
}

impl<'a> Values<'a> {
    #[inline]
    fn get(&self, row: usize) -> &'a [u8] {
        match self {
            Self::Short(offsets, data) => &data[offsets[row] as usize..offsets[row + 1] as usize],
            Self::Long(offsets, data) => &data[offsets[row] as usize..offsets[row + 1] as usize],
            Self::TextViews(array) => array.value(row).as_bytes(),
            Self::BinaryViews(array) => array.value(row),
            Self::Fixed(array) => array.value(row),
            Self::Indexed(indices, texts) => texts.get(indices[row]),
        }
    }
}

/// Start and end of each list's items.
#[derive(Debug)]
pub(crate) enum Bounds<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
    /// Start and length of each list.
    ShortViews(&'a [i32], &'a [i32]),
    LongViews(&'a [i64], &'a [i64]),
    /// Fixed-size lists, with this many items each.
    Fixed(usize),
}

impl<'a> Bounds<'a> {
    /// Bounds of a column of lists, and the column of their items.
    pub(crate) fn of(array: &'a ArrayRef) -> Option<(Self, &'a ArrayRef)> {
        Some(match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Self::Short(list.value_offsets()), list.values())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Self::Long(list.value_offsets()), list.values())
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                (Self::ShortViews(list.value_offsets(), list.value_sizes()), list.values())
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                (Self::LongViews(list.value_offsets(), list.value_sizes()), list.values())
            }
            DataType::FixedSizeList(_, size) => {
                (Self::Fixed(usize::try_from(*size).ok()?), array.as_fixed_size_list().values())
            }
            _ => return None,
        })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Range<usize> {
        match self {
            Self::Short(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Long(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::ShortViews(offsets, sizes) => offsets[row] as usize..(offsets[row] + sizes[row]) as usize,
            Self::LongViews(offsets, sizes) => offsets[row] as usize..(offsets[row] + sizes[row]) as usize,
            Self::Fixed(size) => row * size..(row + 1) * size,
        }
    }
}

/// Decodes a dictionary or run-end encoding: the index of each row's value, and the values. Null rows have an arbitrary
/// index.
pub(crate) fn indexed(array: &ArrayRef) -> Option<(Vec<usize>, &ArrayRef)> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let values = dictionary.values();
        // Without values every row is null, and `normalized_keys` would panic.
        let indices = if values.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
        return Some((indices, values));
    }
    let DataType::RunEndEncoded(ends, _) = array.data_type() else { return None };
    match ends.data_type() {
        DataType::Int16 => array.as_run_opt::<Int16Type>().map(of_runs),
        DataType::Int32 => array.as_run_opt::<Int32Type>().map(of_runs),
        _ => array.as_run_opt::<Int64Type>().map(of_runs),
    }
}

fn of_runs<E: RunEndIndexType>(runs: &RunArray<E>) -> (Vec<usize>, &ArrayRef) {
    let ends = runs.run_ends();
    let mut indices = Vec::with_capacity(ends.len());
    for (place, end) in ends.values().iter().enumerate() {
        // Runs that end before a slice begins have no rows in it.
        let end = end.as_usize().saturating_sub(ends.offset()).min(ends.len());
        indices.resize(end.max(indices.len()), place);
    }
    (indices, runs.values())
}
