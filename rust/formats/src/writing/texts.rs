//! Columns of bytes and texts, the bounds of lists and the entries of maps, whatever array holds them. Nulls are not theirs.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, FixedSizeBinaryArray, StringViewArray};
use arrow_schema::DataType;

#[derive(Debug)]
pub(crate) enum Texts<'a> {
    Short(&'a [i32], &'a [u8]),
    Long(&'a [i64], &'a [u8]),
    TextViews(&'a StringViewArray),
    BinaryViews(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
}

impl<'a> Texts<'a> {
    /// A column of texts.
    pub(crate) fn of_texts(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Self::Short(array.value_offsets(), array.value_data())
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Self::Long(array.value_offsets(), array.value_data())
            }
            DataType::Utf8View => Self::TextViews(array.as_string_view()),
            _ => return None,
        })
    }

    /// A column of bytes or of texts.
    pub(crate) fn of_bytes(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                Self::Short(array.value_offsets(), array.value_data())
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                Self::Long(array.value_offsets(), array.value_data())
            }
            DataType::BinaryView => Self::BinaryViews(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary()),
            _ => return Self::of_texts(array),
        })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        match self {
            Self::Short(offsets, data) => &data[offsets[row] as usize..offsets[row + 1] as usize],
            Self::Long(offsets, data) => &data[offsets[row] as usize..offsets[row + 1] as usize],
            Self::TextViews(array) => array.value(row).as_bytes(),
            Self::BinaryViews(array) => array.value(row),
            Self::Fixed(array) => array.value(row),
        }
    }
}

/// Where the items of each list begin and end.
#[derive(Debug)]
pub(crate) enum Bounds<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
    /// All lists have as many items.
    Fixed(usize),
}

impl<'a> Bounds<'a> {
    /// The bounds of a column of lists, and their items.
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
            Self::Fixed(size) => row * size..(row + 1) * size,
        }
    }
}

/// The entries of maps.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    pub(crate) bounds: Bounds<'a>,
    pub(crate) keys: &'a ArrayRef,
    pub(crate) values: &'a ArrayRef,
}

impl<'a> Entries<'a> {
    /// Those of a column of maps, or of lists of structs with a key and a value, as of polars, which has no maps.
    pub(crate) fn of(array: &'a ArrayRef) -> Option<Self> {
        if let Some(map) = array.as_map_opt() {
            return Some(Self { bounds: Bounds::Short(map.value_offsets()), keys: map.keys(), values: map.values() });
        }
        let (bounds, entries) = Bounds::of(array)?;
        let structs = entries.as_struct_opt()?;
        let (keys, values) = (structs.column_by_name("key")?, structs.column_by_name("value")?);
        let is_whole = structs.num_columns() == 2 && structs.null_count() == 0 && keys.logical_null_count() == 0;
        is_whole.then_some(Self { bounds, keys, values })
    }
}
