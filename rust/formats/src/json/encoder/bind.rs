//! Binds a column to the type that readers decode its values as, so that reading gives the rows again.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::node::{Node, ObjectMember, Values};
use super::scalar;
use super::shown::Time;
use crate::avro::{BadSchema, bad};
use crate::error::below;
use crate::json::options::JsonOptions;
use crate::writing::{Bounds, Decimals, Entries, Floats, Ints, Meaning, Texts, Times, check_columns, indexed};

const MICROS: i64 = 1_000_000;

/// Limit on the nesting of columns, since encoding recurses as deep.
const MAX_DEPTH: usize = 64;

pub(super) struct Binder<'o> {
    pub(super) options: &'o JsonOptions,
    /// Write columns of JSON as they are. Not done where a schema says that they are texts.
    pub(super) embeds_json: bool,
    pub(super) is_shown: bool,
}

type Bound<T> = Result<T, BadSchema>;

impl<'o> Binder<'o> {
    /// Binds a whole column, whose values are objects with these fields, or with the column's own.
    pub(super) fn root<'a>(&self, fields: Option<&Fields>, column: &'a ArrayRef) -> Bound<Node<'a>>
    where
        'o: 'a,
    {
        let wanted = match fields {
            Some(fields) => DataType::Struct(fields.clone()),
            None => natural(column.data_type(), "", 0, self.is_shown)?,
        };
        let is_nested = matches!(wanted, DataType::Struct(_) | DataType::Map(..) | DataType::List(_) | DataType::Null);
        if !is_nested && !self.is_shown {
            let given = column.data_type();
            return Err(bad(
                "",
                format!(
                    "the column is of type {given}; JSON is written from structs, maps and lists, as by Spark's to_json. \
                     Texts that are JSON already are sent without saying how they are written"
                ),
            ));
        }
        self.node(&wanted, column, Meaning::Storage, "")
    }

    /// Binds a column of single values.
    pub(super) fn leaf<'a>(&self, column: &'a ArrayRef) -> Bound<Node<'a>>
    where
        'o: 'a,
    {
        let wanted = natural(column.data_type(), "", 0, false)?;
        self.node(&wanted, column, Meaning::Storage, "")
    }

    fn node<'a>(&self, wanted: &DataType, array: &'a ArrayRef, meaning: Meaning, path: &str) -> Bound<Node<'a>>
    where
        'o: 'a,
    {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Node { nulls, values: self.values(wanted, array, meaning, path)? })
    }

    fn values<'a>(&self, wanted: &DataType, array: &'a ArrayRef, meaning: Meaning, path: &str) -> Bound<Values<'a>>
    where
        'o: 'a,
    {
        if matches!(array.data_type(), DataType::Null) {
            return Ok(Values::Nulls);
        }
        if let Some((indices, values)) = indexed(array) {
            return Ok(Values::Indexed(indices, Box::new(self.node(wanted, values, meaning, path)?)));
        }
        let found = match wanted {
            DataType::Struct(fields) => {
                array.as_struct_opt().map(|structs| self.object(fields, structs, path)).transpose()?
            }
            DataType::List(element) => match Bounds::of(array) {
                Some((bounds, values)) => {
                    let items = self.node(
                        element.data_type(),
                        values,
                        Meaning::of_items(array.data_type()),
                        &format!("{path}[]"),
                    )?;
                    Some(Values::List(bounds, Box::new(items)))
                }
                None => None,
            },
            DataType::Map(entries, _) => self.map(entries, array, path)?,
            scalar => self.scalar(scalar, array, meaning),
        };
        found.ok_or_else(|| {
            let given = array.data_type();
            bad(path, format!("the column is of type {given}, and the schema has {wanted} there"))
        })
    }

    fn object<'a>(&self, fields: &Fields, structs: &'a StructArray, path: &str) -> Bound<Values<'a>>
    where
        'o: 'a,
    {
        let names: Vec<&str> = fields.iter().map(|field| &**field.name()).collect();
        check_columns("the schema", &names, structs, path)?;
        // A field without a column is omitted, like one that is null.
        let present = fields.iter().filter_map(|field| Some((field, structs.fields().find(field.name())?)));
        let members = present.map(|(field, (index, given))| {
            let (name, column) = (field.name(), structs.column(index));
            let mut label = Vec::new();
            scalar::text(name.as_bytes(), &mut label);
            label.push(b':');
            let node = self.node(field.data_type(), column, Meaning::of(given), &below(path, name))?;
            Ok(ObjectMember { name: name.as_str().into(), label, node })
        });
        Ok(Values::Object(members.collect::<Bound<_>>()?, self.options.ignore_null_fields))
    }

    fn map<'a>(&self, entries: &Field, array: &'a ArrayRef, path: &str) -> Bound<Option<Values<'a>>>
    where
        'o: 'a,
    {
        let (Some((given, columns)), DataType::Struct(fields)) = (Entries::of(array), entries.data_type()) else {
            return Ok(None);
        };
        let Some(value) = fields.get(1) else { return Ok(None) };
        if !given.keys.are_known() {
            let given = columns.keys.data_type();
            let reason =
                format!("the keys of the map are {given}, and those of JSON objects are texts; cast them to string");
            return Err(bad(path, reason));
        }
        let values = self.node(
            value.data_type(),
            columns.values,
            Meaning::of_map_values(array.data_type()),
            &format!("{path}{{}}"),
        )?;
        Ok(Some(Values::Map(given, Box::new(values))))
    }

    fn scalar<'a>(&self, wanted: &DataType, array: &'a ArrayRef, meaning: Meaning) -> Option<Values<'a>>
    where
        'o: 'a,
    {
        let options = self.options;
        let ints = |kind, least, most| Ints::of(array).map(|ints| Values::Ints { ints, kind, least, most });
        let whole = |is_double| Ints::of(array).map(|ints| Values::IntsAsFloats(ints, is_double));
        if self.is_shown
            && let Some(time) = Time::of(array)
        {
            return Some(Values::Shown(time));
        }
        match wanted {
            DataType::Boolean => array.as_boolean_opt().map(|booleans| Values::Booleans(booleans.values().clone())),
            DataType::Int8 => ints("int8", i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => ints("int16", i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => ints("int32", i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => ints("int64", i64::MIN, i64::MAX),
            DataType::UInt64 => match Ints::of(array)? {
                Ints::U64(values) => Some(Values::Unsigned(values)),
                _ => None,
            },
            DataType::Float32 => Floats::of(array).map(Values::Float).or_else(|| whole(false)),
            DataType::Float64 => Floats::of(array).map(Values::Double).or_else(|| whole(true)),
            DataType::Utf8 => match meaning {
                Meaning::Uuid => Texts::of_bytes(array).map(Values::Uuid),
                Meaning::Json if self.embeds_json => Texts::of_texts(array).map(Values::Json),
                _ => Texts::of_texts(array).map(Values::Text),
            },
            DataType::Binary => Texts::of_bytes(array).map(Values::Binary),
            DataType::Date32 => Times::date(array).map(|days| Values::Date(days, options.date_format.as_ref())),
            DataType::Timestamp(_, Some(_)) => Times::timestamp(array, MICROS, true)
                .map(|times| Values::Timestamp(times, Some(&options.time_zone), options.timestamp_format.as_ref())),
            DataType::Timestamp(_, None) => Times::timestamp(array, MICROS, false)
                .map(|times| Values::Timestamp(times, None, options.timestamp_ntz_format.as_ref())),
            DataType::Decimal128(precision, scale) => {
                let scale = usize::try_from(*scale).ok()?;
                Decimals::of(array, (*precision).into(), scale).map(|decimals| Values::Decimals(decimals, scale))
            }
            _ => None,
        }
    }
}

/// Type that a field is decoded as if no schema says it.
fn natural_field(field: &Field, path: &str, depth: usize, is_shown: bool) -> Bound<DataType> {
    if Meaning::of(field) == Meaning::Uuid {
        return Ok(DataType::Utf8);
    }
    natural(field.data_type(), path, depth, is_shown)
}

/// Type that a column is decoded as if no schema says it.
pub(super) fn natural(data_type: &DataType, path: &str, depth: usize, is_shown: bool) -> Bound<DataType> {
    if depth > MAX_DEPTH {
        return Err(bad(path, format!("types are nested deeper than {MAX_DEPTH}")));
    }
    let nested = |field: &FieldRef, path: &str| -> Bound<FieldRef> {
        let data_type = natural_field(field, path, depth + 1, is_shown)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(data_type).with_nullable(true)))
    };
    Ok(match data_type {
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) if is_shown => {
            data_type.clone()
        }
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Null => data_type.clone(),
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            // Zeros before the point count as digits, too.
            let digits = i16::from(*precision) - i16::from(*scale).min(0);
            DataType::Decimal128(digits.clamp(1, 38) as u8, (*scale).max(0))
        }
        DataType::Dictionary(_, values) => natural(values, path, depth + 1, is_shown)?,
        DataType::RunEndEncoded(_, values) => natural(values.data_type(), path, depth + 1, is_shown)?,
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| nested(field, &below(path, field.name())));
            DataType::Struct(fields.collect::<Bound<Vec<_>>>()?.into())
        }
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => DataType::List(nested(element, &format!("{path}[]"))?),
        DataType::Map(entries, is_sorted) => {
            let DataType::Struct(fields) = entries.data_type() else { return Err(bad(path, "a map without entries")) };
            let [key, value] = &fields[..] else { return Err(bad(path, "a map without entries")) };
            let fields = Fields::from(vec![Arc::clone(key), nested(value, &format!("{path}{{}}"))?]);
            let entries = entries.as_ref().clone().with_data_type(DataType::Struct(fields));
            DataType::Map(Arc::new(entries), *is_sorted)
        }
        other => {
            let reason = format!(
                "a column of type {other} is not written as JSON; make a text or a number of it, as by a cast to string \
                 or int64"
            );
            return Err(bad(path, reason));
        }
    })
}
