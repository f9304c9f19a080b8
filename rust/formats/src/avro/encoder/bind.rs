//! Binds a column to a type of the schema: maps values to values, and refuses columns that do not fit.

use std::cell::Cell;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, FieldRef};

use super::node::{Node, Null, Symbols, Values};
use crate::avro::defaults;
use crate::avro::error::{BadSchema, bad};
use crate::avro::options::AvroOptions;
use crate::avro::schema::{AvroSchema, Field, Kind, Logical, Type, TypeId};
use crate::error::below;
use crate::writing::{Bounds, Decimals, Entries, Floats, Ints, Meaning, Texts, Times, check_columns, indexed};

/// Limit on how often types are bound: every branch of recursive unions is tried.
const MAX_STEPS: usize = 100_000;

/// Limit on the nesting of columns: encoding recurses as deep, and a recursive schema accepts any depth.
const MAX_DEPTH: usize = 64;

const MAX_DEFAULT_VALUES: usize = 100_000;

pub(super) struct Binder<'s> {
    schema: &'s AvroSchema,
    options: &'s AvroOptions,
    steps: Cell<usize>,
}

type Bound<T> = Result<T, BadSchema>;

impl<'s> Binder<'s> {
    pub(super) fn new(schema: &'s AvroSchema, options: &'s AvroOptions) -> Self {
        Self { schema, options, steps: Cell::new(0) }
    }

    /// Binds a whole column. Its null rows are records without a value, and are not encoded.
    pub(super) fn root<'a>(&self, column: &'a ArrayRef) -> Bound<Node<'a>> {
        if !is_within(column.data_type(), MAX_DEPTH) {
            return Err(bad("", format!("types are nested deeper than {MAX_DEPTH}")));
        }
        self.node(self.schema.root, column, Meaning::Storage, "")
    }

    fn node<'a>(&self, id: TypeId, array: &'a ArrayRef, meaning: Meaning, path: &str) -> Bound<Node<'a>> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > MAX_STEPS {
            return Err(bad(path, "the schema and the column have too many types".to_owned()));
        }
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let kind = self.schema.kind(id);
        let null = match kind {
            Kind::Null => Null::Nothing,
            Kind::Union(branches) => self.null_branch(branches).map_or_else(no_null_branch, Null::Branch),
            _ => Null::Refused(self.schema.text(id).into()),
        };
        if let Some((indices, values)) = indexed(array) {
            let values = Values::Indexed(indices, Box::new(self.node(id, values, meaning, path)?));
            return Ok(Node { nulls, null, branch: None, values });
        }
        if let Kind::Union(branches) = kind {
            return self.union(branches, array, meaning, path).map(|node| Node { nulls, ..node });
        }
        Ok(Node { nulls, null, branch: None, values: self.values(id, array, meaning, path)? })
    }

    /// Binds a union, without the column's nulls.
    fn union<'a>(&self, branches: &[TypeId], array: &'a ArrayRef, meaning: Meaning, path: &str) -> Bound<Node<'a>> {
        let null = self.null_branch(branches);
        let on_null = null.map_or_else(no_null_branch, Null::Branch);
        let node = |branch, values| Node { nulls: None, null: on_null, branch, values };
        if matches!(array.data_type(), DataType::Null) {
            return Ok(node(None, Values::Nulls));
        }
        let others: Vec<(i64, TypeId)> = (0..)
            .zip(branches.iter().copied())
            .filter(|(_, id)| !matches!(self.schema.kind(*id), Kind::Null))
            .collect();
        let Some(first) = others.first() else {
            return Err(bad(path, format!("the schema has nulls alone there, and not {}", array.data_type())));
        };
        if others.len() == 1 {
            return Ok(node(Some(first.0), self.values(first.1, array, meaning, path)?));
        }
        if let Some(members) = self.members(&others, array, path)? {
            return Ok(node(None, Values::Members(members, null)));
        }
        let mut tried = others.clone();
        tried.sort_by_key(|(_, id)| distance(&self.schema.types[*id], array.data_type()));
        for (branch, id) in tried {
            if let Ok(values) = self.values(id, array, meaning, path) {
                return Ok(node(Some(branch), values));
            }
        }
        let names: Vec<String> = self
            .member_names(&others)
            .into_iter()
            .zip(&others)
            .map(|(name, (_, id))| format!("{name} ({})", self.schema.text(*id)))
            .collect();
        let given = array.data_type();
        let expected = format!("a struct with the fields {}, of which one is not null", names.join(", "));
        Err(bad(path, format!("no branch of the union takes {given}; expected one that does, or {expected}")))
    }

    fn null_branch(&self, branches: &[TypeId]) -> Option<i64> {
        branches.iter().position(|id| matches!(self.schema.kind(*id), Kind::Null)).map(|at| at as i64)
    }

    /// Fields of a struct that has one for each branch of a union; `None` for any other struct.
    #[expect(clippy::type_complexity, reason = "it is that of `Values::Members`")]
    fn members<'a>(
        &self,
        others: &[(i64, TypeId)],
        array: &'a ArrayRef,
        path: &str,
    ) -> Bound<Option<Vec<(Box<str>, i64, Node<'a>)>>> {
        let Some(structs) = array.as_struct_opt() else { return Ok(None) };
        // Such a struct is a record without fields: as a union, all its members would be null.
        if structs.num_columns() == 0 {
            return Ok(None);
        }
        let names = self.member_names(others);
        if structs.column_names().iter().any(|column| !names.iter().any(|name| name == column)) {
            return Ok(None);
        }
        let mut members = Vec::new();
        for (name, (branch, id)) in names.into_iter().zip(others) {
            // Branches without a field have no values here.
            let Some((index, given)) = structs.fields().find(&name) else { continue };
            let node = self.node(*id, structs.column(index), Meaning::of(given), &below(path, &name))?;
            members.push((name.into(), *branch, node));
        }
        Ok(Some(members))
    }

    /// Names that the decoder gives to the columns of a union.
    fn member_names(&self, others: &[(i64, TypeId)]) -> Vec<String> {
        let name = |(number, (_, id)): (usize, &(i64, TypeId))| match &self.options.stable_union_prefix {
            Some(prefix) => {
                let kind = self.schema.kind(*id);
                format!("{prefix}{}", kind.name().map_or(kind.text(), |name| name.short()).to_lowercase())
            }
            None => format!("member{number}"),
        };
        others.iter().enumerate().map(name).collect()
    }

    fn values<'a>(&self, id: TypeId, array: &'a ArrayRef, meaning: Meaning, path: &str) -> Bound<Values<'a>> {
        if matches!(array.data_type(), DataType::Null) {
            return Ok(Values::Nulls);
        }
        let found = match self.schema.kind(id) {
            Kind::Record { fields, name } => {
                let Some(structs) = array.as_struct_opt() else { return Err(self.unfit(id, array, path)) };
                return self.record(&name.full, fields, structs, path).map(Values::Record);
            }
            Kind::Array(items) => match Bounds::of(array) {
                Some((bounds, values)) => {
                    let items =
                        self.node(*items, values, Meaning::of_items(array.data_type()), &format!("{path}[]"))?;
                    Some(Values::List(bounds, Box::new(items)))
                }
                None => None,
            },
            Kind::Map(values) => match Entries::of(array) {
                Some((entries, columns)) if entries.keys.are_texts() => {
                    let meaning = Meaning::of_map_values(array.data_type());
                    let values = self.node(*values, columns.values, meaning, &format!("{path}{{}}"))?;
                    Some(Values::Map(entries, Box::new(values)))
                }
                _ => None,
            },
            _ => self.scalar(id, array, meaning),
        };
        found.ok_or_else(|| self.unfit(id, array, path))
    }

    fn record<'a>(
        &self,
        name: &str,
        fields: &[Field],
        structs: &'a StructArray,
        path: &str,
    ) -> Bound<Vec<(Box<str>, Node<'a>)>> {
        let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
        check_columns(&format!("the record {name}"), &names, structs, path)?;
        let bound = |field: &Field| {
            let below = below(path, &field.name);
            match structs.fields().find(&field.name) {
                Some((index, given)) => self.node(field.type_id, structs.column(index), Meaning::of(given), &below),
                None => self.default(name, field, &below),
            }
            .map(|node| (field.name.clone(), node))
        };
        fields.iter().map(bound).collect()
    }

    /// Node of a field without a column: its default.
    fn default<'a>(&self, record: &str, field: &Field, path: &str) -> Bound<Node<'a>> {
        let Some(default) = &field.default else {
            let kind = self.schema.text(field.type_id);
            let reason = format!("there is no column for this field of {record}, of type {kind}, which has no default");
            return Err(bad(path, reason));
        };
        let (mut bytes, mut steps) = (Vec::new(), MAX_DEFAULT_VALUES);
        defaults::encode(self.schema, field.type_id, default, &mut bytes, &mut steps, 0)
            .map_err(|reason| bad(path, reason))?;
        Ok(Node { nulls: None, null: Null::Nothing, branch: None, values: Values::Constant(bytes) })
    }

    fn scalar<'a>(&self, id: TypeId, array: &'a ArrayRef, meaning: Meaning) -> Option<Values<'a>> {
        let each = &self.schema.types[id];
        let is_int = matches!(each.kind, Kind::Int);
        // Integers have the schema's physical type, regardless of the logical type.
        let whole = |array| Ints::of(array).map(if is_int { Values::Int } else { Values::Long });
        match (&each.kind, each.logical) {
            (kind, Some(Logical::Decimal { precision, scale })) => {
                let size = if let Kind::Fixed { size, .. } = kind { Some(*size) } else { None };
                Decimals::of(array, precision, scale).map(|decimals| Values::Decimals(decimals, size))
            }
            (_, Some(Logical::Date)) => Times::date(array).map(Values::Times).or_else(|| whole(array)),
            (_, Some(Logical::Time(units))) => Times::time(array, units).map(Values::Times).or_else(|| whole(array)),
            (_, Some(Logical::Timestamp(units))) => {
                Times::timestamp(array, units, true).map(Values::Times).or_else(|| whole(array))
            }
            (_, Some(Logical::LocalTimestamp(units))) => {
                Times::timestamp(array, units, false).map(Values::Times).or_else(|| whole(array))
            }
            (Kind::Boolean, None) => array.as_boolean_opt().map(|booleans| Values::Booleans(booleans.values().clone())),
            (Kind::Int | Kind::Long, None) => whole(array),
            (Kind::Float, None) => {
                let whole = || Ints::of(array).map(|ints| Values::IntsAsFloats(ints, false));
                Floats::of(array).map(Values::Float).or_else(whole)
            }
            (Kind::Double, None) => {
                let whole = || Ints::of(array).map(|ints| Values::IntsAsFloats(ints, true));
                Floats::of(array).map(Values::Double).or_else(whole)
            }
            (Kind::String, None) if meaning == Meaning::Uuid => Texts::of_bytes(array).map(Values::Uuid),
            (Kind::String, None) => Texts::of_texts(array).map(Values::Bytes),
            (Kind::Bytes, None) => Texts::of_bytes(array).map(Values::Bytes),
            (Kind::Fixed { size, .. }, None) => Texts::of_bytes(array).map(|texts| Values::Fixed(texts, *size)),
            (Kind::Enum { symbols, .. }, None) => {
                let mut sorted: Vec<_> = symbols.iter().cloned().zip(0..).collect();
                sorted.sort();
                Texts::of_texts(array).map(|texts| Values::Symbols(texts, Symbols { sorted }))
            }
            _ => None,
        }
    }

    fn unfit(&self, id: TypeId, array: &ArrayRef, path: &str) -> BadSchema {
        let (each, given) = (&self.schema.types[id], array.data_type());
        let expected = match (&each.kind, each.logical) {
            (_, Some(Logical::Decimal { .. })) => "a decimal",
            (_, Some(Logical::Date)) => "a date",
            (_, Some(Logical::Time(_))) => "a time",
            (_, Some(Logical::Timestamp(_))) => {
                "a timestamp with a zone: say which zone its times are in, by .dt.tz_localize(\"UTC\") of pandas, \
                 .dt.replace_time_zone(\"UTC\") of polars, pyarrow.compute.assume_timezone"
            }
            (_, Some(Logical::LocalTimestamp(_))) => "a timestamp without a zone",
            (Kind::Boolean, _) => "boolean",
            (Kind::Int | Kind::Long, _) => "a whole number, or a decimal without places behind the point",
            (Kind::Float | Kind::Double, _) => "a floating number, to which others are cast first, or a whole one",
            (Kind::String | Kind::Enum { .. }, _) => "string",
            (Kind::Bytes | Kind::Fixed { .. }, _) => "binary",
            (Kind::Array(_), _) => "a list",
            (Kind::Map(_), _) => "a map with keys of type string",
            (Kind::Record { .. }, _) => "a struct",
            (Kind::Null | Kind::Union(_), _) => "only nulls",
        };
        bad(
            path,
            format!(
                "the column is of type {given}, and the schema has {} there; expected {expected}",
                self.schema.text(id)
            ),
        )
    }
}

fn no_null_branch() -> Null {
    Null::Refused("union without null".into())
}

/// Returns true if a type is nested no deeper than this many levels.
fn is_within(data_type: &DataType, levels: usize) -> bool {
    let within = |field: &FieldRef| levels > 0 && is_within(field.data_type(), levels - 1);
    match data_type {
        DataType::Struct(fields) => fields.iter().all(within),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => within(field),
        DataType::ListView(field) | DataType::LargeListView(field) => within(field),
        DataType::Map(entries, _) => within(entries),
        DataType::RunEndEncoded(_, values) => within(values),
        DataType::Dictionary(_, values) => levels > 0 && is_within(values, levels - 1),
        _ => true,
    }
}

/// Distance of a union's branch from a column's type: of the branches that accept the column, the nearest is used.
fn distance(branch: &Type, column: &DataType) -> usize {
    let is_logical = branch.logical.is_some();
    match (column, &branch.kind) {
        (column, _) if column.is_decimal() => match branch.logical {
            Some(Logical::Decimal { .. }) => 0,
            _ => 1 + distance(branch, &DataType::Int64),
        },
        // Integer columns prefer the widest type, which is the one that they are decoded from.
        (_, Kind::Long) => usize::from(is_logical),
        (_, Kind::Int) => 1 + usize::from(is_logical),
        (_, Kind::Double) => 3,
        (_, Kind::Float) => 4,
        (DataType::FixedSizeBinary(width), Kind::Fixed { size, .. }) if usize::try_from(*width) == Ok(*size) => 0,
        (_, Kind::String) => 0,
        // A text may be none of the symbols, or have another size than a fixed.
        (_, Kind::Enum { .. }) => 1,
        (_, Kind::Bytes) => 2,
        (_, Kind::Fixed { .. }) => 3,
        _ => 0,
    }
}
