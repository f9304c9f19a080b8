//! The choice of columns, and the Arrow schema of a batch with them: the schema of Spark's Kafka source.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// The set of columns that a batch has. The default is all columns except `headers`.
///
/// Columns are always in the schema's order, regardless of the order in which they are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnSet(u8);

/// Reason why a list of names does not select columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnSetError {
    /// A name that is not a column's.
    #[error("unknown column {name:?}; did you mean {nearest:?}? The columns are {}; and deliveryCount, of a share group", ColumnSet::NAMES.join(", "))]
    UnknownColumn {
        /// The name given.
        name: String,
        /// The column whose name is nearest.
        nearest: &'static str,
    },
    /// An empty list of names.
    #[error("name at least one column of {}", ColumnSet::NAMES.join(", "))]
    NoColumns,
}

impl ColumnSet {
    /// The record's key.
    pub const KEY: Self = Self(1);
    /// The record's value.
    pub const VALUE: Self = Self(1 << 1);
    /// The topic's name.
    pub const TOPIC: Self = Self(1 << 2);
    /// The partition's number.
    pub const PARTITION: Self = Self(1 << 3);
    /// The record's offset.
    pub const OFFSET: Self = Self(1 << 4);
    /// The record's timestamp.
    pub const TIMESTAMP: Self = Self(1 << 5);
    /// 0 for create time, 1 for log append time.
    pub const TIMESTAMP_TYPE: Self = Self(1 << 6);
    /// The record's headers.
    pub const HEADERS: Self = Self(1 << 7);
    /// No column.
    pub const NONE: Self = Self(0);
    /// Every column.
    pub const ALL: Self = Self(u8::MAX);

    /// The columns' names in the schema's order.
    pub const NAMES: [&'static str; 8] =
        ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"];

    /// The columns with these names.
    ///
    /// # Errors
    /// A name that is not a column's, or no name at all.
    pub fn from_names<I>(names: I) -> Result<Self, ColumnSetError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut set = Self::NONE;
        for name in names {
            let name = name.as_ref();
            match Self::NAMES.iter().position(|known| *known == name) {
                Some(index) => set.0 |= 1 << index,
                None => {
                    let nearest = nearest_name(name);
                    return Err(ColumnSetError::UnknownColumn { name: name.to_owned(), nearest });
                }
            }
        }
        if set == Self::NONE { Err(ColumnSetError::NoColumns) } else { Ok(set) }
    }

    /// Returns true if every column of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Union of this set and `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the columns of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The names of the columns in this set, in the schema's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().enumerate().filter(move |(index, _)| self.0 & (1 << index) != 0).map(|(_, name)| name)
    }

    /// The schema of every batch with these columns: exactly the names, types and nullability of Spark's
    /// Kafka source.
    pub fn schema(self) -> SchemaRef {
        static SPARK: LazyLock<Schema> = LazyLock::new(spark_schema);
        let names: Vec<_> = self.names().collect();
        let fields: Fields =
            SPARK.fields().iter().filter(|field| names.contains(&field.name().as_str())).cloned().collect();
        Arc::new(Schema::new(fields))
    }
}

impl Default for ColumnSet {
    fn default() -> Self {
        Self::ALL.without(Self::HEADERS)
    }
}

fn spark_schema() -> Schema {
    let types = [
        DataType::Binary,
        DataType::Binary,
        DataType::Utf8,
        DataType::Int32,
        DataType::Int64,
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Int32,
        DataType::List(Arc::new(header_field())),
    ];
    let field = |(name, data_type)| Field::new(name, data_type, true);
    Schema::new(ColumnSet::NAMES.into_iter().zip(types).map(field).collect::<Fields>())
}

pub(crate) fn header_field() -> Field {
    Field::new("element", DataType::Struct(header_fields()), true)
}

pub(crate) fn header_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)])
}

fn nearest_name(name: &str) -> &'static str {
    let lower = name.to_lowercase();
    let distance = |known: &&&'static str| edit_distance(&known.to_lowercase(), &lower);
    ColumnSet::NAMES.iter().min_by_key(distance).copied().unwrap_or_default()
}

fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
