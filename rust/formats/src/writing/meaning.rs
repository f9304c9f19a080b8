//! Meaning of Arrow's extension types beyond their storage.

use arrow_schema::{DataType, Field, FieldRef};

/// Meaning of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Plain storage type.
    Storage,
    /// `arrow.uuid`: sixteen bytes, which become texts of 36 characters.
    Uuid,
    /// `arrow.json`: texts of JSON.
    Json,
}

impl Meaning {
    /// Meaning of a field's values. Other extension types count as their storage.
    pub fn of(field: &Field) -> Self {
        match (field.extension_type_name(), stored(field.data_type())) {
            (Some("arrow.uuid"), DataType::FixedSizeBinary(16)) => Self::Uuid,
            (Some("arrow.json"), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Self::Json,
            _ => Self::Storage,
        }
    }
}

impl Meaning {
    pub(crate) fn of_items(lists: &DataType) -> Self {
        item_of(lists).map_or(Self::Storage, |item| Self::of(item))
    }

    /// Meaning of the values of a column of maps, or of lists of structs that are taken for maps.
    pub(crate) fn of_map_values(maps: &DataType) -> Self {
        let (entries, value) = match maps {
            DataType::Map(entries, _) => (Some(entries), None),
            lists => (item_of(lists), Some("value")),
        };
        let Some(DataType::Struct(fields)) = entries.map(|entries| entries.data_type()) else { return Self::Storage };
        let found = match value {
            Some(name) => fields.find(name).map(|(_, field)| field),
            None => fields.get(1),
        };
        found.map_or(Self::Storage, |field| Self::of(field))
    }
}

fn item_of(lists: &DataType) -> Option<&FieldRef> {
    match lists {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

pub(crate) fn uuid_text(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

pub(crate) const UUID_TEXT_BYTES: usize = 36;

/// Type of the values behind a dictionary or run-end encoding.
fn stored(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored(values),
        DataType::RunEndEncoded(_, values) => stored(values.data_type()),
        other => other,
    }
}
