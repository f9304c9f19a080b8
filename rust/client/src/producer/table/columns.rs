//! Reads records from Arrow columns: bytes by row, whatever type holds them.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type,
    StringViewType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    Utf8Type,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray, PrimitiveArray, RecordBatch,
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use monedula_columns::text_of;
use monedula_protocol::records::Header;

use crate::error::ClientError;

/// Columns that a consumer returns and a producer ignores, so that a consumed batch can be sent on unchanged.
const IGNORED: [&str; 2] = ["offset", "timestampType"];

const KNOWN: [&str; 6] = ["key", "value", "headers", "topic", "partition", "timestamp"];

/// The indexes of a table's columns. Every error of a column is found before the first row is sent.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    key: Option<usize>,
    value: Option<usize>,
    headers: Option<usize>,
    topic: Option<usize>,
    partition: Option<usize>,
    timestamp: Option<usize>,
    /// Headers that rows get besides those of their column.
    added: Vec<(String, Vec<u8>)>,
    /// Headers that rows get in place of those of the same names.
    set: Vec<(String, Vec<u8>)>,
}

impl Columns {
    /// Finds the columns of a table. With `has_topic` all rows go to one topic, and a column of topics is ignored, as
    /// in Spark's sink.
    ///
    /// # Errors
    /// An unknown column, two columns of one name, a type that is not supported, and rows without a topic.
    pub fn of(schema: &Schema, has_topic: bool) -> Result<Self, ClientError> {
        let mut columns = Self::default();
        for (index, field) in schema.fields().iter().enumerate() {
            let (name, given) = (field.name().as_str(), field.data_type());
            if name == "topic" && has_topic {
                continue;
            }
            let (place, fits, wanted) = match name {
                "key" => (&mut columns.key, is_bytes(given), BYTES),
                "value" => (&mut columns.value, is_bytes(given), BYTES),
                "topic" => (&mut columns.topic, is_bytes(given), "string"),
                "headers" => (&mut columns.headers, is_headers(given), HEADERS),
                "partition" => (&mut columns.partition, is_partition(given), "int32"),
                "timestamp" => (&mut columns.timestamp, is_time(given), TIME),
                _ if IGNORED.contains(&name) || is_row_number(schema, field)? => continue,
                _ => return Err(ClientError::Argument(unknown(name))),
            };
            if !fits {
                let advice =
                    if matches!(given, DataType::Timestamp(_, None)) { ZONE } else { "Cast it before it is sent" };
                let message = format!("the column {name:?} is of type {given}; expected {wanted}. {advice}");
                return Err(ClientError::Argument(message));
            }
            if place.replace(index).is_some() {
                return Err(ClientError::Argument(format!("there are two columns {name:?}; keep one")));
            }
        }
        if columns.topic.is_none() && !has_topic {
            let message = "the rows have no topic: give send_batch(data, topic=...), or a column \"topic\"";
            return Err(ClientError::Argument(message.into()));
        }
        if columns.key.is_none() && columns.value.is_none() {
            let message =
                "the rows have neither a column \"value\" nor a column \"key\": rename the one that is to be sent";
            return Err(ClientError::Argument(message.into()));
        }
        Ok(columns)
    }

    /// Adds these headers to each row that has none of their names.
    #[must_use]
    pub fn with_headers(self, added: Vec<(String, Vec<u8>)>) -> Self {
        Self { added, ..self }
    }

    /// Sets these headers of each row, in place of those that have their names.
    #[must_use]
    pub fn with_set_headers(self, set: Vec<(String, Vec<u8>)>) -> Self {
        Self { set, ..self }
    }

    /// True if rows name their partitions.
    pub fn has_partition(&self) -> bool {
        self.partition.is_some()
    }

    pub(crate) fn values<'b>(&'b self, batch: &'b RecordBatch) -> ColumnValues<'b> {
        let column = |index: Option<usize>| index.map(|index| batch.column(index));
        let bytes = |index| column(index).map_or(Bytes::Null, Bytes::of);
        ColumnValues {
            key: bytes(self.key),
            value: bytes(self.value),
            topic: self.topic.map(|index| Bytes::of(batch.column(index))),
            headers: column(self.headers).and_then(Headers::of),
            added: &self.added,
            set: &self.set,
            partition: column(self.partition).and_then(Partitions::of),
            timestamp: column(self.timestamp).and_then(Times::of),
        }
    }
}

const BYTES: &str = "binary or string (large and view types too)";
const TIME: &str = "timestamp with a time zone, or int64 of milliseconds";
const ZONE: &str = "Say which zone its times are in: by .dt.tz_localize(\"UTC\") of pandas, .dt.replace_time_zone(\"UTC\") of \
                    polars, pyarrow.compute.assume_timezone";
const AS_BINARY: &str = ". Cast the column to binary to send its bytes as they are";
const HEADERS: &str = "list<struct<key: string, value: binary>>, or a map of them";

fn unknown(name: &str) -> String {
    let near = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(name));
    let near = near.map(|known| format!("; did you mean {known:?}?")).unwrap_or_default();
    format!(
        "a record has no column {name:?}, only {}{near}. Drop it, or encode it into \"value\", as JSON for example",
        KNOWN.join(", ")
    )
}

/// True if pandas wrote this column for an index without a name that only numbers rows, as that of a filtered frame.
///
/// # Errors
/// The index is one of several levels, or has other labels than whole numbers: these would be lost.
pub fn is_row_number(schema: &Schema, field: &Field) -> Result<bool, ClientError> {
    let is_level = |name: &str| name.strip_prefix("__index_level_").is_some_and(|rest| rest.ends_with("__"));
    if !is_level(field.name()) {
        return Ok(false);
    }
    let levels = schema.fields().iter().filter(|field| is_level(field.name())).count();
    if levels == 1 && field.data_type().is_integer() {
        return Ok(true);
    }
    Err(ClientError::Argument(format!(
        "the column {:?} is an index of pandas without a name, whose labels would be lost: .reset_index() makes a column of \
         it, .rename_axis(\"name\") names it, .reset_index(drop=True) leaves it out",
        field.name()
    )))
}

fn is_bytes(given: &DataType) -> bool {
    match given {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, values) => is_bytes(values),
        _ => false,
    }
}

fn is_headers(given: &DataType) -> bool {
    match given {
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => match item.data_type() {
            // The fields of a map's entries may have any names; the key is the first one.
            DataType::Struct(fields) => {
                let is_map = matches!(given, DataType::Map(..));
                let all_bytes = fields.iter().all(|field| is_bytes(field.data_type()));
                fields.len() == 2 && all_bytes && (is_map || key_and_value(fields).is_some())
            }
            _ => false,
        },
        DataType::Null => true,
        _ => false,
    }
}

/// The indexes of the fields of a header's struct.
fn key_and_value(fields: &Fields) -> Option<(usize, usize)> {
    let place = |name| fields.iter().position(|field| field.name() == name);
    Some((place("key")?, place("value")?))
}

fn is_partition(given: &DataType) -> bool {
    matches!(given, DataType::Int32 | DataType::Int64 | DataType::Null)
}

fn is_time(given: &DataType) -> bool {
    matches!(given, DataType::Timestamp(_, Some(_)) | DataType::Int64 | DataType::Null)
}

/// The columns of one record batch, downcast once.
pub(crate) struct ColumnValues<'b> {
    pub(crate) key: Bytes<'b>,
    pub(crate) value: Bytes<'b>,
    /// `None` if all rows go to one topic.
    pub(crate) topic: Option<Bytes<'b>>,
    headers: Option<Headers<'b>>,
    added: &'b [(String, Vec<u8>)],
    set: &'b [(String, Vec<u8>)],
    pub(crate) partition: Option<Partitions<'b>>,
    pub(crate) timestamp: Option<Times<'b>>,
}

impl<'b> ColumnValues<'b> {
    /// Puts a row's headers into `into`, which has those of the row before.
    #[inline(always)]
    pub(crate) fn headers(&self, row: usize, into: &mut Vec<Header<'b>>) {
        match &self.headers {
            Some(column) => column.get(row, into),
            None => into.clear(),
        }
        if !self.added.is_empty() {
            self.add_headers(into);
        }
        for (name, value) in self.set {
            into.retain(|header| header.key != name.as_bytes());
            into.push(Header { key: name.as_bytes(), value: Some(value) });
        }
    }

    fn add_headers(&self, into: &mut Vec<Header<'b>>) {
        if !self.added.iter().any(|(key, _)| into.iter().any(|header| header.key == key.as_bytes())) {
            into.extend(self.added.iter().map(|(key, value)| Header { key: key.as_bytes(), value: Some(value) }));
        }
    }

    /// True if one of these rows may be refused; if not, none of them has to be checked.
    pub(crate) fn may_refuse(&self, rows: &Range<usize>) -> bool {
        self.partition.is_some()
            || self.headers.as_ref().is_some_and(|headers| headers.lacks_keys || !headers.are_texts(rows))
            || self.timestamp.as_ref().is_some_and(|times| times.has_early)
            || self.texts().any(|(_, column, _)| !column.are_texts(rows))
    }

    /// The columns whose bytes have to be UTF-8, with their names, and what can be done about one that is not.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &Bytes<'b>, &'static str)> {
        let own = [("key", &self.key), ("value", &self.value)].into_iter().filter(|(_, column)| column.is_text());
        let own = own.map(|(name, column)| (name, column, AS_BINARY));
        own.chain(self.topic.iter().map(|column| ("topic", column, "")))
    }

    /// Reason that a row is not a valid record, for any topic.
    pub(crate) fn refusal(&self, row: usize) -> Option<ClientError> {
        let partition = self.partition.as_ref().and_then(|partitions| partitions.refusal(row));
        let time = || self.timestamp.as_ref()?.refusal(row);
        let text = || {
            self.texts().find_map(|(name, column, advice)| {
                let error = text_of(column.get(row)?).err()?;
                Some(format!("{name} is text that is not UTF-8: {error}{advice}"))
            })
        };
        let reason = partition.or_else(time).or_else(|| self.headers.as_ref()?.refusal(row)).or_else(text)?;
        Some(ClientError::Argument(reason))
    }
}

pub(crate) enum Bytes<'b> {
    Null,
    Short(Offsets<'b, i32>),
    Long(Offsets<'b, i64>),
    BinaryViews(&'b GenericByteViewArray<BinaryViewType>),
    TextViews(&'b GenericByteViewArray<StringViewType>),
    Fixed(&'b FixedSizeBinaryArray),
    /// The index of each row's value in the values; and the values.
    Dictionary(Vec<Option<usize>>, Box<Bytes<'b>>),
}

pub(crate) struct Offsets<'b, O> {
    offsets: &'b [O],
    data: &'b [u8],
    nulls: Option<&'b NullBuffer>,
    is_text: bool,
}

impl<'b, O: ArrowNativeType> Offsets<'b, O> {
    fn of<T: ByteArrayType<Offset = O>>(array: &'b GenericByteArray<T>) -> Self
    where
        O: arrow_array::OffsetSizeTrait,
    {
        Self {
            offsets: array.value_offsets(),
            data: array.value_data(),
            nulls: present(array.nulls()),
            is_text: matches!(T::DATA_TYPE, DataType::Utf8 | DataType::LargeUtf8),
        }
    }

    /// True if the bytes of each of these rows are UTF-8. All rows are checked at once.
    fn are_texts(&self, rows: &Range<usize>) -> bool {
        let offsets = &self.offsets[rows.start..=rows.end];
        let first = offsets[0].as_usize();
        let used = &self.data[first..offsets[rows.len()].as_usize()];
        let splits_no_character = |text: &str| offsets.iter().all(|end| text.is_char_boundary(end.as_usize() - first));
        used.is_ascii() || std::str::from_utf8(used).is_ok_and(splits_no_character)
    }

    #[inline(always)]
    fn get(&self, row: usize) -> Option<&'b [u8]> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(&self.data[self.offsets[row].as_usize()..self.offsets[row + 1].as_usize()])
    }
}

fn present(nulls: Option<&NullBuffer>) -> Option<&NullBuffer> {
    nulls.filter(|nulls| nulls.null_count() > 0)
}

impl<'b> Bytes<'b> {
    fn of(array: &'b ArrayRef) -> Self {
        match array.data_type() {
            DataType::Binary => Self::Short(Offsets::of(array.as_bytes::<BinaryType>())),
            DataType::Utf8 => Self::Short(Offsets::of(array.as_bytes::<Utf8Type>())),
            DataType::LargeBinary => Self::Long(Offsets::of(array.as_bytes::<LargeBinaryType>())),
            DataType::LargeUtf8 => Self::Long(Offsets::of(array.as_bytes::<LargeUtf8Type>())),
            DataType::BinaryView => Self::BinaryViews(array.as_byte_view::<BinaryViewType>()),
            DataType::Utf8View => Self::TextViews(array.as_byte_view::<StringViewType>()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                // Without values every row is null, and `normalized_keys` would panic.
                if dictionary.values().is_empty() {
                    return Self::Null;
                }
                let keys = dictionary.normalized_keys();
                let nulls = dictionary.keys().logical_nulls();
                let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                let places = keys.into_iter().enumerate().map(|(row, key)| (!is_null(row)).then_some(key)).collect();
                Self::Dictionary(places, Box::new(Self::of(dictionary.values())))
            }
            // [`Columns::of`] refuses all other types.
            _ => Self::Null,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, row: usize) -> Option<&'b [u8]> {
        match self {
            Self::Short(offsets) => offsets.get(row),
            Self::Null => None,
            Self::Long(offsets) => offsets.get(row),
            Self::BinaryViews(views) => of_view(views, row),
            Self::TextViews(views) => of_view(views, row),
            Self::Fixed(array) => (!array.is_null(row)).then(|| array.value(row)),
            Self::Dictionary(places, values) => places[row].and_then(|place| values.get(place)),
        }
    }

    pub(crate) fn is_all_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// True if the column's type says that its bytes are UTF-8. Not every library checks that they are.
    fn is_text(&self) -> bool {
        match self {
            Self::Short(Offsets { is_text, .. }) | Self::Long(Offsets { is_text, .. }) => *is_text,
            Self::TextViews(_) => true,
            Self::Dictionary(_, values) => values.is_text(),
            Self::Null | Self::BinaryViews(_) | Self::Fixed(_) => false,
        }
    }

    /// True if the bytes of these rows are UTF-8. Those below nulls may count, too.
    fn are_texts(&self, rows: &Range<usize>) -> bool {
        match self {
            Self::Null => true,
            Self::Short(offsets) => offsets.are_texts(rows),
            Self::Long(offsets) => offsets.are_texts(rows),
            others => rows.clone().all(|row| others.get(row).is_none_or(|bytes| text_of(bytes).is_ok())),
        }
    }
}

#[inline(always)]
fn of_view<T: ByteViewType>(array: &GenericByteViewArray<T>, row: usize) -> Option<&[u8]> {
    (!array.is_null(row)).then(|| array.value(row).as_ref())
}

/// A column of lists of key-value pairs.
pub(crate) struct Headers<'b> {
    bounds: Bounds<'b>,
    nulls: Option<&'b NullBuffer>,
    /// Nulls of the pairs themselves: the keys and values below them are not headers.
    pairs: Option<&'b NullBuffer>,
    keys: Bytes<'b>,
    values: Bytes<'b>,
    /// True if a pair has no key, in a row or below a null.
    lacks_keys: bool,
}

enum Bounds<'b> {
    Short(&'b [i32]),
    Long(&'b [i64]),
}

impl<'b> Headers<'b> {
    fn of(array: &'b ArrayRef) -> Option<Self> {
        let (bounds, pairs) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Bounds::Short(list.value_offsets()), list.values().as_struct())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Bounds::Long(list.value_offsets()), list.values().as_struct())
            }
            DataType::Map(..) => {
                let map = array.as_map();
                (Bounds::Short(map.value_offsets()), map.entries())
            }
            _ => return None,
        };
        let (key, value) = match array.data_type() {
            DataType::Map(..) => (0, 1),
            _ => key_and_value(pairs.fields())?,
        };
        Some(Self {
            bounds,
            nulls: present(array.nulls()),
            pairs: present(pairs.nulls()),
            keys: Bytes::of(pairs.column(key)),
            values: Bytes::of(pairs.column(value)),
            lacks_keys: pairs.null_count() + pairs.column(key).logical_null_count() > 0,
        })
    }

    #[inline]
    fn range(&self, row: usize) -> Range<usize> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return 0..0;
        }
        self.range_below(row)
    }

    /// Also of a row that is null, which may have pairs below it.
    fn range_below(&self, row: usize) -> Range<usize> {
        match self.bounds {
            Bounds::Short(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
            Bounds::Long(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
        }
    }

    /// True if the keys of these rows' headers are UTF-8, and values that are texts.
    fn are_texts(&self, rows: &Range<usize>) -> bool {
        if rows.is_empty() {
            return true;
        }
        let pairs = self.range_below(rows.start).start..self.range_below(rows.end - 1).end;
        self.keys.are_texts(&pairs) && (!self.values.is_text() || self.values.are_texts(&pairs))
    }

    /// Reason that a row's headers are invalid: one has no key, or a key that is not UTF-8, which readers replace.
    fn refusal(&self, row: usize) -> Option<String> {
        self.range(row).enumerate().find_map(|(number, at)| {
            if self.pairs.is_some_and(|pairs| pairs.is_null(at)) {
                return Some(format!("header {number} of the row is null: expected a key and a value"));
            }
            let Some(key) = self.keys.get(at) else {
                return Some(format!("header {number} of the row has no key: Kafka's headers have one, be it empty"));
            };
            if let Err(error) = text_of(key) {
                return Some(format!("the key of header {number} is not UTF-8, as Kafka's are: {error}"));
            }
            let error = text_of(self.values.get(at).filter(|_| self.values.is_text())?).err()?;
            Some(format!("the value of header {number} is text that is not UTF-8: {error}{AS_BINARY}"))
        })
    }

    /// Puts a row's headers into `into`. A key may occur more than once.
    #[inline]
    fn get(&self, row: usize, into: &mut Vec<Header<'b>>) {
        into.clear();
        // Rows with a header without a key were refused before.
        let header = |at| Header { key: self.keys.get(at).unwrap_or_default(), value: self.values.get(at) };
        into.extend(self.range(row).map(header));
    }
}

pub(crate) enum Partitions<'b> {
    Int(&'b PrimitiveArray<Int32Type>),
    Long(&'b PrimitiveArray<Int64Type>),
}

impl<'b> Partitions<'b> {
    fn of(array: &'b ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Int32 => Some(Self::Int(array.as_primitive())),
            DataType::Int64 => Some(Self::Long(array.as_primitive())),
            _ => None,
        }
    }

    /// `None` has the partitioner choose.
    #[inline(always)]
    pub(crate) fn get(&self, row: usize) -> Option<i32> {
        match self {
            Self::Int(array) => (!array.is_null(row)).then(|| array.value(row)),
            // Rows whose number is out of range were refused before.
            Self::Long(array) => (!array.is_null(row)).then(|| i32::try_from(array.value(row)).unwrap_or(-1)),
        }
    }

    /// Reason that a row's number cannot be a partition of any topic.
    fn refusal(&self, row: usize) -> Option<String> {
        let given = match self {
            Self::Int(array) => (!array.is_null(row)).then(|| array.value(row).into()),
            Self::Long(array) => (!array.is_null(row)).then(|| array.value(row)),
        };
        let given: i64 = given.filter(|given| !(0..=i64::from(i32::MAX)).contains(given))?;
        Some(format!("partition={given}: expected 0 or more, of 32 bits; null has the partitioner choose"))
    }
}

pub(crate) struct Times<'b> {
    values: &'b [i64],
    nulls: Option<&'b NullBuffer>,
    /// Ticks per millisecond, and milliseconds per tick.
    divisor: i64,
    factor: i64,
    /// True if a time is before 1970, in a row or below a null.
    has_early: bool,
}

impl<'b> Times<'b> {
    fn of(array: &'b ArrayRef) -> Option<Self> {
        let (values, divisor, factor): (&[i64], _, _) = match array.data_type() {
            DataType::Int64 => (array.as_primitive::<Int64Type>().values(), 1, 1),
            DataType::Timestamp(TimeUnit::Second, _) => (array.as_primitive::<TimestampSecondType>().values(), 1, 1000),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                (array.as_primitive::<TimestampMillisecondType>().values(), 1, 1)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                (array.as_primitive::<TimestampMicrosecondType>().values(), 1000, 1)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                (array.as_primitive::<TimestampNanosecondType>().values(), 1_000_000, 1)
            }
            _ => return None,
        };
        // All signs at once: a search for the first one would be slower.
        let has_early = values.iter().fold(0, |signs, value| signs | value) < 0;
        Some(Self { values, nulls: present(array.nulls()), divisor, factor, has_early })
    }

    /// Reason that a row's time is not that of a record.
    #[inline]
    fn refusal(&self, row: usize) -> Option<String> {
        let given = self.get(row).filter(|milliseconds| *milliseconds < 0)?;
        Some(format!("timestamp={given} ms is before 1970; null has the record sent with the current time"))
    }

    /// Milliseconds since 1970; `None` is now.
    #[inline(always)]
    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let ticks = self.values[row].saturating_mul(self.factor);
        Some(if self.divisor == 1 { ticks } else { ticks.div_euclid(self.divisor) })
    }
}
