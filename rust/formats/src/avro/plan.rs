//! Resolution of a writer's schema to a reader's, made once: a plan by which values become columns.

use super::defaults;
use super::error::{BadSchema, bad};
use super::schema::{AvroSchema, Field, Kind, Logical, Type, TypeId};
use super::shape::{BranchTarget, Form, Shape, Target};
use crate::error::below;

/// Limit on the steps of a plan: a writer's union repeats the steps of everything in it.
const MAX_STEPS: usize = 100_000;

/// Step that decodes one value of the writer's and appends one row to a column.
#[derive(Debug)]
pub(crate) enum Step {
    Null,
    Boolean,
    Int,
    Long,
    IntAsLong,
    /// Int or long in another time unit than the column's.
    Time(TimeStep),
    Float,
    IntAsFloat,
    LongAsFloat,
    Double,
    IntAsDouble,
    LongAsDouble,
    FloatAsDouble,
    /// String or bytes to texts.
    Text,
    /// Bytes or string to bytes.
    Bytes,
    Fixed(usize),
    /// Whole rest of the value, for bytes at the top level: Confluent's serializers write them without their length.
    Rest,
    /// Decimal in length-prefixed bytes.
    Decimal,
    DecimalFixed(usize),
    /// Reader's symbol for each symbol of the writer's.
    Enum(Box<[Symbol]>),
    Record(Box<RecordStep>),
    List(Box<ItemStep>),
    Map(Box<ItemStep>),
    /// Writer's union, with a step for each branch.
    Branches(Box<[Self]>),
    /// Field of a union's struct, whose other fields are null.
    Member(usize, Box<Self>),
    /// Value without a column.
    Cut(TypeId),
    Unresolvable(Box<str>),
}

#[derive(Debug)]
pub(crate) struct TimeStep {
    pub(crate) is_int: bool,
    pub(crate) multiply: i64,
    pub(crate) divide: i64,
    /// Units of the column's in a day, for a time of day.
    pub(crate) day: Option<i64>,
}

#[derive(Debug)]
pub(crate) enum Symbol {
    Known(Box<str>),
    Unknown(Box<str>),
}

#[derive(Debug)]
pub(crate) struct RecordStep {
    /// Fields in the writer's order.
    pub(crate) fields: Box<[FieldStep]>,
    /// Columns that the writer has no field for.
    pub(crate) defaults: Box<[DefaultStep]>,
}

#[derive(Debug)]
pub(crate) enum FieldStep {
    Column(usize, Step),
    Skip(TypeId, Box<str>),
}

#[derive(Debug)]
pub(crate) struct DefaultStep {
    pub(crate) column: usize,
    /// Step for the encoded default, which has the reader's encoding.
    pub(crate) step: Step,
    pub(crate) bytes: Box<[u8]>,
}

/// Step for the items of an array, or the values of a map.
#[derive(Debug)]
pub(crate) struct ItemStep {
    pub(crate) step: Step,
    /// Minimal size of an item in a value, in bytes.
    pub(crate) min_bytes: usize,
}

/// Steps from a writer's schema to a reader's shape.
pub(crate) fn resolve(
    writer: &AvroSchema,
    reader: &AvroSchema,
    shape: &Shape,
    is_confluent: bool,
) -> Result<Step, BadSchema> {
    if is_confluent && matches!((writer.kind(writer.root), &shape.form), (Kind::Bytes, Form::Scalar(Target::Bytes))) {
        return Ok(Step::Rest);
    }
    Resolver { writer, reader, steps: 0 }.step(writer.root, shape, "")
}

struct Resolver<'s> {
    writer: &'s AvroSchema,
    reader: &'s AvroSchema,
    steps: usize,
}

type Resolved<T = Step> = Result<T, BadSchema>;

impl Resolver<'_> {
    fn step(&mut self, id: TypeId, shape: &Shape, path: &str) -> Resolved {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(bad(path, format!("reading the schema takes more than {MAX_STEPS} steps")));
        }
        let (written, wanted) = (&self.writer.types[id], &self.reader.types[shape.reader]);
        match (&written.kind, &shape.form) {
            (Kind::Union(branches), _) => self.branches(branches, shape, path),
            (_, Form::Union(members)) => self.union_branch(id, members, path),
            (Kind::Record { fields, .. }, Form::Record(columns)) => self.record(fields, columns, shape, path),
            (Kind::Array(items), Form::List(shape)) => {
                let step = self.step(*items, shape, &format!("{path}[]"))?;
                Ok(Step::List(Box::new(ItemStep { step, min_bytes: usize::from(!self.writer.types[*items].is_empty) })))
            }
            (Kind::Map(values), Form::Map(shape)) => {
                let step = self.step(*values, shape, &format!("{path}{{}}"))?;
                // The key's length takes at least one byte.
                Ok(Step::Map(Box::new(ItemStep { step, min_bytes: 1 })))
            }
            (_, Form::Scalar(target)) => scalar(written, wanted, *target).map_err(|reason| bad(path, reason)),
            (kind, _) => Err(bad(path, unfit(kind, &wanted.kind))),
        }
    }

    /// Steps for a writer's union, of which at least one branch must be resolvable.
    fn branches(&mut self, branches: &[TypeId], shape: &Shape, path: &str) -> Resolved {
        let (mut steps, mut refused, mut is_readable) = (Vec::new(), None, false);
        for branch in branches {
            let is_null = branches.len() > 1 && matches!(self.writer.kind(*branch), Kind::Null);
            match self.step(*branch, shape, path) {
                Ok(step) => {
                    is_readable |= !is_null;
                    steps.push(step);
                }
                Err(bad) => {
                    let reason = if bad.path == path { bad.reason.clone() } else { bad.to_string() };
                    steps.push(Step::Unresolvable(reason.into()));
                    // Prefer the fault of another branch: an unresolvable null says less.
                    if refused.is_none() || !is_null {
                        refused = Some(bad);
                    }
                }
            }
        }
        match refused {
            Some(bad) if !is_readable => Err(bad),
            _ => Ok(Step::Branches(steps.into())),
        }
    }

    /// Step for a value into the reader's union: the first branch of the same kind, else one that the kind is promoted
    /// to.
    fn union_branch(&mut self, id: TypeId, members: &[BranchTarget], path: &str) -> Resolved {
        let Some(number) = self.branch_for(id, members, path) else {
            let kind = self.writer.kind(id);
            return Err(bad(path, format!("{} is in no branch of the reader's union", kind.text())));
        };
        match &members[number] {
            BranchTarget::Null => Ok(Step::Null),
            BranchTarget::Same(shape) => self.step(id, shape, path),
            BranchTarget::Field(column, _, shape) => Ok(Step::Member(*column, Box::new(self.step(id, shape, path)?))),
            BranchTarget::Cut => Ok(Step::Cut(id)),
        }
    }

    fn branch_for(&mut self, id: TypeId, members: &[BranchTarget], path: &str) -> Option<usize> {
        let (writer, reader) = (self.writer, self.reader);
        let written = writer.kind(id);
        let kinds: Vec<_> = members.iter().map(|member| kind_of(reader, member)).collect();
        let is_same = |kind: &Option<&Kind>| {
            kind.is_some_and(|kind| std::mem::discriminant(kind) == std::mem::discriminant(written))
        };
        let same: Vec<_> = (0..members.len()).filter(|number| is_same(&kinds[*number])).collect();
        let Some(name) = written.name() else {
            let promoted = |kind: &Option<&Kind>| kind.is_some_and(|kind| is_promoted(written, kind));
            let found = same.first().copied().or_else(|| kinds.iter().position(promoted));
            return found;
        };
        let called = |number: &&usize| kinds[**number].and_then(Kind::name);
        let exact = same.iter().find(|number| called(number).is_some_and(|other| other.full == name.full));
        let named = || same.iter().find(|number| called(number).is_some_and(|other| other.is_of(name)));
        // Fall back to equal fields, since a union may have the record under an unrelated name. A record that was cut
        // has no shape to compare.
        let alike = |number: &&usize| match &members[**number] {
            BranchTarget::Same(shape) | BranchTarget::Field(_, _, shape) => self.step(id, shape, path).is_ok(),
            BranchTarget::Null | BranchTarget::Cut => false,
        };
        exact.or_else(named).or_else(|| same.iter().find(alike)).copied()
    }

    fn record(&mut self, written: &[Field], columns: &[(usize, Shape)], shape: &Shape, path: &str) -> Resolved {
        let reader = self.reader;
        let Kind::Record { fields: wanted, .. } = reader.kind(shape.reader) else {
            return Err(bad(path, "the reader's type is no record".to_owned()));
        };
        let mut fields: Vec<_> =
            written.iter().map(|field| FieldStep::Skip(field.type_id, field.name.clone())).collect();
        let mut defaults = Vec::new();
        for (column, (index, shape)) in columns.iter().enumerate() {
            let field = &wanted[*index];
            let below = below(path, &field.name);
            let by_name = |name: &str| written.iter().position(|other| *other.name == *name);
            let is_free = |number: &usize| matches!(fields[*number], FieldStep::Skip(..));
            let by_alias = || field.aliases.iter().find_map(|alias| by_name(alias).filter(is_free));
            match by_name(&field.name).filter(is_free).or_else(by_alias) {
                Some(number) => {
                    let step = self.step(written[number].type_id, shape, &below)?;
                    fields[number] = FieldStep::Column(column, step);
                }
                None => defaults.push(self.default(column, field, shape, &below)?),
            }
        }
        Ok(Step::Record(Box::new(RecordStep { fields: fields.into(), defaults: defaults.into() })))
    }

    fn default(&mut self, column: usize, field: &Field, shape: &Shape, path: &str) -> Resolved<DefaultStep> {
        let Some(json) = &field.default else {
            let reason = "the writer has no such field, and the reader's has no default";
            return Err(bad(path, reason.to_owned()));
        };
        let mut bytes = Vec::new();
        let mut steps_left = MAX_STEPS.saturating_sub(self.steps);
        let encoded = defaults::encode(self.reader, field.type_id, json, &mut bytes, &mut steps_left, 0);
        self.steps = MAX_STEPS - steps_left;
        encoded.map_err(|reason| bad(path, reason))?;
        // Defaults have the reader's encoding, so the reader's schema is resolved to itself.
        let mut own = Resolver { writer: self.reader, reader: self.reader, steps: self.steps };
        let step = own.step(field.type_id, shape, path)?;
        self.steps = own.steps;
        Ok(DefaultStep { column, step, bytes: bytes.into() })
    }
}

fn kind_of<'s>(reader: &'s AvroSchema, member: &BranchTarget) -> Option<&'s Kind> {
    match member {
        BranchTarget::Null => Some(&Kind::Null),
        BranchTarget::Same(shape) | BranchTarget::Field(_, _, shape) => Some(reader.kind(shape.reader)),
        BranchTarget::Cut => None,
    }
}

/// Returns true if the writer's kind is promoted to the reader's, which is another.
fn is_promoted(written: &Kind, wanted: &Kind) -> bool {
    matches!(
        (written, wanted),
        (Kind::Int, Kind::Long | Kind::Float | Kind::Double)
            | (Kind::Long, Kind::Float | Kind::Double)
            | (Kind::Float, Kind::Double)
            | (Kind::String, Kind::Bytes)
            | (Kind::Bytes, Kind::String)
    )
}

fn scalar(written: &Type, wanted: &Type, target: Target) -> Result<Step, String> {
    let unfit = || unfit(&written.kind, &wanted.kind);
    Ok(match (&written.kind, target) {
        (Kind::Boolean, Target::Boolean) => Step::Boolean,
        (Kind::Int, Target::Int32 | Target::Date) => Step::Int,
        (Kind::Int, Target::Int64) => Step::IntAsLong,
        (Kind::Long, Target::Int64) => Step::Long,
        (kind @ (Kind::Int | Kind::Long), Target::TimeMillis | Target::TimeMicros | Target::Timestamp { .. }) => {
            time(written, wanted, target, matches!(kind, Kind::Int)).ok_or_else(unfit)?
        }
        (Kind::Float, Target::Float32) => Step::Float,
        (Kind::Int, Target::Float32) => Step::IntAsFloat,
        (Kind::Long, Target::Float32) => Step::LongAsFloat,
        (Kind::Double, Target::Float64) => Step::Double,
        (Kind::Int, Target::Float64) => Step::IntAsDouble,
        (Kind::Long, Target::Float64) => Step::LongAsDouble,
        (Kind::Float, Target::Float64) => Step::FloatAsDouble,
        (Kind::String | Kind::Bytes, Target::Text) if matches!(wanted.kind, Kind::String) => Step::Text,
        (Kind::String | Kind::Bytes, Target::Bytes) if matches!(wanted.kind, Kind::Bytes) => Step::Bytes,
        (Kind::Bytes, Target::Decimal { .. }) if matches!(wanted.kind, Kind::Bytes) => {
            same_scale(written, wanted)?;
            Step::Decimal
        }
        (Kind::Fixed { size, .. }, Target::Bytes | Target::Decimal { .. }) => match &wanted.kind {
            Kind::Fixed { size: other, .. } if other != size => {
                return Err(format!("a fixed of {size} bytes cannot be read as one of {other}"));
            }
            Kind::Fixed { .. } if target == Target::Bytes => Step::Fixed(*size),
            Kind::Fixed { .. } => {
                same_scale(written, wanted)?;
                Step::DecimalFixed(*size)
            }
            _ => return Err(unfit()),
        },
        (Kind::Enum { symbols, .. }, Target::Text) => match &wanted.kind {
            Kind::Enum { symbols: known, default, .. } => {
                let symbol = |symbol: &str| match (known.iter().any(|known| **known == *symbol), default) {
                    (true, _) => Symbol::Known(symbol.into()),
                    (false, Some(default)) => Symbol::Known(default.clone()),
                    (false, None) => Symbol::Unknown(symbol.into()),
                };
                Step::Enum(symbols.iter().map(|each| symbol(each)).collect())
            }
            _ => return Err(unfit()),
        },
        _ => return Err(unfit()),
    })
}

/// Refuses another scale, by which the same bytes would be other numbers.
fn same_scale(written: &Type, wanted: &Type) -> Result<(), String> {
    match (written.logical, wanted.logical) {
        (Some(Logical::Decimal { scale: one, .. }), Some(Logical::Decimal { scale: two, .. })) if one != two => {
            Err(format!("a decimal of scale {one} cannot be read as one of scale {two}"))
        }
        _ => Ok(()),
    }
}

/// Step for a time or timestamp. The number is in the writer's unit if the writer's schema has one, else in the
/// reader's.
fn time(written: &Type, wanted: &Type, target: Target, is_int: bool) -> Option<Step> {
    let unit = |logical: Option<Logical>| match (logical?, target) {
        (Logical::Time(unit), Target::TimeMillis | Target::TimeMicros) => Some(unit),
        (Logical::Timestamp(unit) | Logical::LocalTimestamp(unit), Target::Timestamp { .. }) => Some(unit),
        _ => None,
    };
    if target == Target::TimeMillis && !is_int {
        return None;
    }
    let from = unit(written.logical).or_else(|| unit(wanted.logical))?;
    let (to, day) = match target {
        Target::TimeMillis => (1_000, Some(86_400_000)),
        Target::TimeMicros => (1_000_000, Some(86_400_000_000)),
        Target::Timestamp { is_nanos: true, .. } => (1_000_000_000, None),
        _ => (1_000_000, None),
    };
    if from == to && day.is_none() && !is_int {
        return Some(Step::Long);
    }
    Some(Step::Time(TimeStep { is_int, multiply: (to / from).max(1), divide: (from / to).max(1), day }))
}

fn unfit(written: &Kind, wanted: &Kind) -> String {
    format!("{} of the writer's cannot be read as {}", written.text(), wanted.text())
}
