//! Columns of a reader's schema, by the rules of Spark's `from_avro`: unions of several types are structs, and a
//! recursive record is cut at a depth.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::error::{BadSchema, bad};
use super::options::AvroOptions;
use super::schema::{AvroSchema, Kind, Logical, TypeId};
use crate::error::below;

/// Limit on the columns of a schema: a record that is used at several places counts at each.
const MAX_COLUMNS: usize = 10_000;
/// Limit on the nesting of types, since decoding recurses as deep.
const MAX_DEPTH: usize = 64;
/// Digits of a 16-byte decimal.
const MAX_PRECISION: usize = 38;

/// A reader's type as a column.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) reader: TypeId,
    pub(crate) form: Form,
}

#[derive(Debug)]
pub(crate) enum Form {
    Scalar(Target),
    /// Fields of a record that are columns, by their indexes in the record.
    Record(Vec<(usize, Shape)>),
    List(Box<Shape>),
    Map(Box<Shape>),
    /// Union, with the target of each branch.
    Union(Vec<BranchTarget>),
}

/// Target of a branch of a reader's union.
#[derive(Debug)]
pub(crate) enum BranchTarget {
    Null,
    /// Column of the union itself.
    Same(Shape),
    /// Field of the union's struct: its index and name.
    Field(usize, String, Shape),
    /// No column: a recursive record beyond the depth.
    Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Boolean,
    Int32,
    Int64,
    Float32,
    Float64,
    Text,
    Bytes,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Date,
    TimeMillis,
    TimeMicros,
    /// Timestamps in UTC or local, in nanoseconds or else microseconds.
    Timestamp {
        is_zoned: bool,
        is_nanos: bool,
    },
}

impl Shape {
    /// Shape of a whole schema; an error if one of its types cannot be a column.
    pub(crate) fn of(schema: &AvroSchema, options: &AvroOptions) -> Result<Self, BadSchema> {
        let mut maker = Maker { schema, options, columns: 0, open: Vec::new() };
        let shape = maker.shape(schema.root, "", 0)?;
        shape.ok_or_else(|| BadSchema::new("", "nothing is left of the schema"))
    }

    pub(crate) fn data_type(&self, schema: &AvroSchema) -> DataType {
        match &self.form {
            Form::Scalar(target) => target.data_type(),
            Form::Record(fields) => {
                let Kind::Record { fields: named, .. } = schema.kind(self.reader) else { return DataType::Null };
                let column = |(index, shape): &(usize, Self)| field(&named[*index].name, shape.data_type(schema));
                DataType::Struct(fields.iter().map(column).collect())
            }
            Form::List(items) => DataType::List(Arc::new(field("element", items.data_type(schema)))),
            Form::Map(values) => {
                let key = Field::new("key", DataType::Utf8, false);
                let entries = Fields::from(vec![key, field("value", values.data_type(schema))]);
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
            }
            Form::Union(members) => {
                let same = members.iter().find_map(|member| match member {
                    BranchTarget::Same(shape) => Some(shape.data_type(schema)),
                    _ => None,
                });
                let fields = members.iter().filter_map(|member| match member {
                    BranchTarget::Field(_, name, shape) => Some(field(name, shape.data_type(schema))),
                    _ => None,
                });
                same.unwrap_or_else(|| DataType::Struct(fields.collect()))
            }
        }
    }
}

/// Nullable, since a record may have no value, and a bad one may be kept as a row of nulls.
fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

impl Target {
    fn data_type(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Self::Date => DataType::Date32,
            Self::TimeMillis => DataType::Time32(TimeUnit::Millisecond),
            Self::TimeMicros => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp { is_zoned, is_nanos } => {
                let unit = if is_nanos { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
                DataType::Timestamp(unit, is_zoned.then(|| "UTC".into()))
            }
        }
    }
}

struct Maker<'s> {
    schema: &'s AvroSchema,
    options: &'s AvroOptions,
    columns: usize,
    /// Records around the current type, to detect recursion.
    open: Vec<TypeId>,
}

impl Maker<'_> {
    /// Shape of a type; `None` if it is cut.
    fn shape(&mut self, id: TypeId, path: &str, depth: usize) -> Result<Option<Shape>, BadSchema> {
        self.columns += 1;
        if self.columns > MAX_COLUMNS {
            return Err(bad(path, format!("the schema has more than {MAX_COLUMNS} columns")));
        }
        if depth > MAX_DEPTH {
            return Err(bad(path, format!("types are nested deeper than {MAX_DEPTH}")));
        }
        let schema = self.schema;
        let form = match schema.kind(id) {
            Kind::Record { fields, name } => {
                let times = self.open.iter().filter(|open| **open == id).count();
                let max = self.options.recursive_field_max_depth;
                if times > 0 && max == 0 {
                    let hint = "the option `recursiveFieldMaxDepth` (1 to 15) says how deep columns go";
                    return Err(bad(path, format!("the record {} is in itself", name.full)).with_hint(hint));
                }
                if times > 0 && times >= max {
                    return Ok(None);
                }
                self.open.push(id);
                let mut columns = Vec::new();
                for (index, field) in fields.iter().enumerate() {
                    let below = below(path, &field.name);
                    columns.extend(self.shape(field.type_id, &below, depth + 1)?.map(|shape| (index, shape)));
                }
                self.open.pop();
                Some(Form::Record(columns))
            }
            Kind::Array(items) => {
                self.shape(*items, &format!("{path}[]"), depth + 1)?.map(|items| Form::List(Box::new(items)))
            }
            Kind::Map(values) => {
                self.shape(*values, &format!("{path}{{}}"), depth + 1)?.map(|values| Form::Map(Box::new(values)))
            }
            Kind::Union(branches) => self.union(branches, path, depth)?,
            _ => Some(Form::Scalar(self.scalar(id, path)?)),
        };
        Ok(form.map(|form| Shape { reader: id, form }))
    }

    fn union(&mut self, branches: &[TypeId], path: &str, depth: usize) -> Result<Option<Form>, BadSchema> {
        let schema = self.schema;
        let is_null = |id: &TypeId| matches!(schema.kind(*id), Kind::Null);
        let others: Vec<_> = branches.iter().filter(|id| !is_null(id)).collect();
        let widened = match others[..] {
            [one, two] => match (schema.kind(*one), schema.kind(*two)) {
                (Kind::Int, Kind::Long) | (Kind::Long, Kind::Int) => Some(Target::Int64),
                (Kind::Float, Kind::Double) | (Kind::Double, Kind::Float) => Some(Target::Float64),
                _ => None,
            },
            [] => return Err(bad(path, NULLS.to_owned())),
            _ => None,
        };
        let mut members = Vec::new();
        let (mut columns, mut number) = (0, 0);
        for id in branches {
            if is_null(id) {
                members.push(BranchTarget::Null);
                continue;
            }
            if let Some(target) = widened {
                members.push(BranchTarget::Same(Shape { reader: *id, form: Form::Scalar(target) }));
                continue;
            }
            let name = match &self.options.stable_union_prefix {
                Some(prefix) => {
                    let kind = schema.kind(*id);
                    format!("{prefix}{}", kind.name().map_or(kind.text(), |name| name.short()).to_lowercase())
                }
                None => format!("member{number}"),
            };
            number += 1;
            if others.len() == 1 {
                let Some(shape) = self.shape(*id, path, depth)? else { return Ok(None) };
                members.push(BranchTarget::Same(shape));
                continue;
            }
            let below = below(path, &name);
            if members.iter().any(|member| matches!(member, BranchTarget::Field(_, known, _) if *known == name)) {
                let reason = "two branches of the union have this name; leave out enableStableIdentifiersForUnionType";
                return Err(bad(&below, reason.to_owned()));
            }
            match self.shape(*id, &below, depth + 1)? {
                Some(shape) => {
                    members.push(BranchTarget::Field(columns, name, shape));
                    columns += 1;
                }
                None => members.push(BranchTarget::Cut),
            }
        }
        Ok(Some(Form::Union(members)))
    }

    fn scalar(&self, id: TypeId, path: &str) -> Result<Target, BadSchema> {
        let each = &self.schema.types[id];
        Ok(match (&each.kind, each.logical) {
            (_, Some(Logical::Decimal { precision, scale })) => {
                if precision > MAX_PRECISION {
                    let reason = format!("a decimal of {precision} digits; columns have {MAX_PRECISION} at most");
                    return Err(bad(path, reason));
                }
                Target::Decimal { precision: precision as u8, scale: scale as i8 }
            }
            (_, Some(Logical::Date)) => Target::Date,
            (_, Some(Logical::Time(1_000))) => Target::TimeMillis,
            (_, Some(Logical::Time(_))) => Target::TimeMicros,
            (_, Some(Logical::Timestamp(unit))) => {
                Target::Timestamp { is_zoned: true, is_nanos: unit == 1_000_000_000 }
            }
            (_, Some(Logical::LocalTimestamp(unit))) => {
                Target::Timestamp { is_zoned: false, is_nanos: unit == 1_000_000_000 }
            }
            (Kind::Boolean, None) => Target::Boolean,
            (Kind::Int, None) => Target::Int32,
            (Kind::Long, None) => Target::Int64,
            (Kind::Float, None) => Target::Float32,
            (Kind::Double, None) => Target::Float64,
            (Kind::Bytes | Kind::Fixed { .. }, None) => Target::Bytes,
            (Kind::String | Kind::Enum { .. }, None) => Target::Text,
            _ => return Err(bad(path, NULLS.to_owned())),
        })
    }
}

const NULLS: &str = "values of type null are in no column; leave the field out of the reader's schema";
