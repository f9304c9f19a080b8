//! Decoding plan of a message: for each field number, the decoding step and the target column.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Fields, TimeUnit};

use super::options::ProtobufOptions;
use super::schema::{Enum, Field, FieldKind, Message, Presence, ProtobufSchema, TypeId};
use super::wire::{BYTES, FIXED32, FIXED64, GROUP, VARINT};
use crate::avro::{BadSchema, bad};
use crate::error::below;

/// Limit on the columns of a schema: a message that is used at several places counts at each.
const MAX_COLUMNS: usize = 10_000;
/// Limit on the nesting of types, since decoding recurses as deep.
const MAX_DEPTH: usize = 64;

/// Step that decodes one value of a field.
#[derive(Debug)]
pub(crate) enum FieldStep {
    /// Varint to a column of 32 bits, signed or not.
    Varint32,
    SInt32,
    Fixed32,
    /// Varint to a column of 64 bits, signed or not.
    Varint64,
    SInt64,
    Fixed64,
    Bool,
    Text,
    Bytes,
    UInt32AsLong,
    Fixed32AsLong,
    UInt64AsDecimal,
    Fixed64AsDecimal,
    Enum(Arc<Enum>),
    /// Enum by number; holds a closed enum, whose unknown numbers are skipped.
    EnumNumber(Option<Arc<Enum>>),
    Message(Box<MessagePlan>),
    Timestamp,
    Duration,
    /// Message around one value, such as `google.protobuf.Int32Value`.
    Wrapper(Box<Self>),
    List(Box<ItemPlan>),
    Map(Box<MapPlan>),
}

#[derive(Debug)]
pub(crate) struct MessagePlan {
    /// Plan of each column, in the order of the schema.
    pub(crate) fields: Box<[FieldPlan]>,
    /// One-based field index for each tag of one byte; 0 for tags without a column.
    pub(crate) by_tag: Box<[u8; 128]>,
    /// Field numbers and field indexes, ascending.
    pub(crate) by_number: Box<[(u32, usize)]>,
    /// Members of oneofs that have no column, ascending by number: when one occurs, it clears the columns of the other
    /// members.
    pub(crate) hidden: Box<[(u32, Oneof)]>,
    /// Bits of the first 64 fields.
    pub(crate) all: u64,
}

#[derive(Debug)]
pub(crate) struct FieldPlan {
    pub(crate) step: FieldStep,
    pub(crate) number: u32,
    pub(crate) wire: u8,
    pub(crate) absent: Absent,
    /// True for a scalar outside any oneof: no enum, message, list or map.
    pub(crate) is_plain: bool,
    /// Oneof that the field belongs to.
    pub(crate) oneof: Option<Box<Oneof>>,
}

/// Links between the members of a oneof.
#[derive(Debug, Clone)]
pub(crate) struct Oneof {
    /// Number of the oneof's group, above all field indexes.
    pub(crate) group: usize,
    /// Field indexes of the other members.
    pub(crate) others: Box<[usize]>,
    pub(crate) has_messages: bool,
}

/// Value of a field that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    Null,
    Zero,
    Refused,
    /// List or map of the elements that were decoded, maybe none.
    Ended,
}

#[derive(Debug)]
pub(crate) struct ItemPlan {
    pub(crate) step: FieldStep,
    pub(crate) wire: u8,
    /// Minimal size of an element in columns.
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct MapPlan {
    pub(crate) key: FieldStep,
    pub(crate) key_wire: u8,
    pub(crate) value: FieldStep,
    pub(crate) value_wire: u8,
    /// Minimal size of an entry in columns.
    pub(crate) bytes: usize,
}

impl FieldStep {
    /// Returns true if the step decodes a sub-message: several occurrences of one are merged.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Timestamp | Self::Duration | Self::Wrapper(_))
    }

    /// Size of a row without a value.
    fn bytes(&self) -> usize {
        match self {
            Self::Varint32 | Self::SInt32 | Self::Fixed32 | Self::EnumNumber(_) | Self::Text | Self::Bytes => 4,
            Self::List(_) | Self::Map(_) => 4,
            Self::Bool => 1,
            Self::UInt64AsDecimal | Self::Fixed64AsDecimal => 16,
            Self::Enum(each) => 4 + each.values.get(&0).map_or(1, |name| name.len()),
            Self::Message(message) => 1 + message.fields.iter().map(|field| field.step.bytes()).sum::<usize>(),
            Self::Wrapper(step) => step.bytes(),
            _ => 8,
        }
    }
}

/// Plan of the schema's message, and the type of its column.
pub(crate) fn plan(schema: &ProtobufSchema, options: &ProtobufOptions) -> Result<(MessagePlan, DataType), BadSchema> {
    let mut planner = Planner { schema, options, columns: 0, open: Vec::new() };
    match planner.message(schema.root, &FieldSelection::of(&options.fields), "", 0)? {
        Some((plan, fields)) if options.retain_empty_message_types || !fields.is_empty() => {
            Ok((plan, DataType::Struct(fields)))
        }
        _ => Err(bad("", "nothing is left of the schema".to_owned())),
    }
}

struct Planner<'s> {
    schema: &'s ProtobufSchema,
    options: &'s ProtobufOptions,
    columns: usize,
    /// Messages around the current type, to detect recursion.
    open: Vec<TypeId>,
}

/// Planned type; `None` if it is cut as too recursive or empty.
type Planned<T> = Result<Option<T>, BadSchema>;

impl Planner<'_> {
    fn message(
        &mut self,
        id: TypeId,
        wanted: &FieldSelection,
        path: &str,
        depth: usize,
    ) -> Planned<(MessagePlan, Fields)> {
        let message = &self.schema.messages[id];
        if depth > MAX_DEPTH {
            return Err(bad(path, format!("types are nested deeper than {MAX_DEPTH}")));
        }
        let times = self.open.iter().filter(|open| **open == id).count();
        let max = self.options.recursive_fields_max_depth;
        if times > 0 && max == 0 {
            let hint = "the option `recursive.fields.max.depth` (1 to 10) says how deep columns go";
            return Err(bad(path, format!("the message {} is in itself", message.name)).with_hint(hint));
        }
        if times > 0 && times >= max {
            return Ok(None);
        }
        self.open.push(id);
        let (mut plans, mut columns) = (Vec::new(), Vec::new());
        for (field, wanted) in chosen(message, wanted, path)? {
            let below = below(path, &field.name);
            if let Some((plan, data_type)) = self.field(field, wanted, &below, depth + 1)? {
                plans.push((plan, field.oneof));
                columns.push(ArrowField::new(&*field.name, data_type, true));
            }
        }
        self.open.pop();
        Ok(Some((message_plan(plans, &message.fields), columns.into())))
    }

    fn field(
        &mut self,
        field: &Field,
        wanted: &FieldSelection,
        path: &str,
        depth: usize,
    ) -> Planned<(FieldPlan, DataType)> {
        self.columns += 1;
        if self.columns > MAX_COLUMNS {
            return Err(bad(path, format!("the schema has more than {MAX_COLUMNS} columns")));
        }
        let schema = self.schema;
        if let FieldKind::Message(id) = field.kind
            && schema.messages[id].is_map_entry
            && field.presence == Presence::Repeated
        {
            return self.map((field, &schema.messages[id]), wanted, path, depth);
        }
        let Some((step, data_type)) = self.value(field.kind, wanted, path, depth)? else { return Ok(None) };
        let wire = wire_type(field.kind);
        let of = |step, absent| FieldPlan { step, number: field.number, wire, absent, is_plain: false, oneof: None };
        Ok(Some(match field.presence {
            Presence::Repeated => {
                let bytes = step.bytes();
                let element = ArrowField::new("element", data_type, true);
                let step = FieldStep::List(Box::new(ItemPlan { step, wire, bytes }));
                (of(step, Absent::Ended), DataType::List(Arc::new(element)))
            }
            Presence::Required => (of(step, Absent::Refused), data_type),
            Presence::Implicit if self.options.emit_default_values => (of(step, Absent::Zero), data_type),
            Presence::Implicit | Presence::Explicit => (of(step, Absent::Null), data_type),
        }))
    }

    /// Plans a map; `wanted` selects fields of its values.
    fn map(
        &mut self,
        (field, entry): (&Field, &Message),
        wanted: &FieldSelection,
        path: &str,
        depth: usize,
    ) -> Planned<(FieldPlan, DataType)> {
        let by_number = |number| entry.fields.iter().find(|field| field.number == number);
        let (Some(key), Some(value)) = (by_number(1), by_number(2)) else {
            return Err(bad(path, "a map without key or value".to_owned()));
        };
        if matches!(
            key.kind,
            FieldKind::Float
                | FieldKind::Double
                | FieldKind::Bytes
                | FieldKind::Enum(_)
                | FieldKind::Message(_)
                | FieldKind::Group(_)
        ) {
            return Err(bad(path, "the keys of a map are numbers, texts or booleans".to_owned()));
        }
        let path = format!("{path}{{}}");
        let (Some((key_step, key_type)), Some((step, data_type))) = (
            self.value(key.kind, &FieldSelection::default(), &path, depth)?,
            self.value(value.kind, wanted, &path, depth)?,
        ) else {
            return Ok(None);
        };
        let columns = vec![ArrowField::new("key", key_type, false), ArrowField::new("value", data_type, true)];
        let entries = ArrowField::new("entries", DataType::Struct(columns.into()), false);
        let plan = MapPlan {
            bytes: key_step.bytes() + step.bytes(),
            key: key_step,
            key_wire: wire_type(key.kind),
            value: step,
            value_wire: wire_type(value.kind),
        };
        let step = FieldStep::Map(Box::new(plan));
        let plan =
            FieldPlan { step, number: field.number, wire: BYTES, absent: Absent::Ended, is_plain: false, oneof: None };
        Ok(Some((plan, DataType::Map(Arc::new(entries), false))))
    }

    /// Plans one value: its step, and the type of its column.
    fn value(
        &mut self,
        kind: FieldKind,
        wanted: &FieldSelection,
        path: &str,
        depth: usize,
    ) -> Planned<(FieldStep, DataType)> {
        if !wanted.is_all() && !matches!(kind, FieldKind::Message(_) | FieldKind::Group(_)) {
            return Err(bad(path, NO_FIELDS.to_owned()));
        }
        let (upcast, signed) = (self.options.upcast_unsigned_ints, self.options.unsigned_as_signed);
        let unsigned = |unsigned, same_bits| if signed { same_bits } else { unsigned };
        let decimal = DataType::Decimal128(20, 0);
        Ok(Some(match kind {
            FieldKind::Double => (FieldStep::Fixed64, DataType::Float64),
            FieldKind::Float => (FieldStep::Fixed32, DataType::Float32),
            FieldKind::Int64 => (FieldStep::Varint64, DataType::Int64),
            FieldKind::UInt64 if upcast => (FieldStep::UInt64AsDecimal, decimal),
            FieldKind::UInt64 => (FieldStep::Varint64, unsigned(DataType::UInt64, DataType::Int64)),
            FieldKind::Int32 => (FieldStep::Varint32, DataType::Int32),
            FieldKind::Fixed64 if upcast => (FieldStep::Fixed64AsDecimal, decimal),
            FieldKind::Fixed64 => (FieldStep::Fixed64, unsigned(DataType::UInt64, DataType::Int64)),
            FieldKind::Fixed32 if upcast => (FieldStep::Fixed32AsLong, DataType::Int64),
            FieldKind::Fixed32 => (FieldStep::Fixed32, unsigned(DataType::UInt32, DataType::Int32)),
            FieldKind::Bool => (FieldStep::Bool, DataType::Boolean),
            FieldKind::Text => (FieldStep::Text, DataType::Utf8),
            FieldKind::Bytes => (FieldStep::Bytes, DataType::Binary),
            FieldKind::UInt32 if upcast => (FieldStep::UInt32AsLong, DataType::Int64),
            FieldKind::UInt32 => (FieldStep::Varint32, unsigned(DataType::UInt32, DataType::Int32)),
            FieldKind::SFixed32 => (FieldStep::Fixed32, DataType::Int32),
            FieldKind::SFixed64 => (FieldStep::Fixed64, DataType::Int64),
            FieldKind::SInt32 => (FieldStep::SInt32, DataType::Int32),
            FieldKind::SInt64 => (FieldStep::SInt64, DataType::Int64),
            FieldKind::Enum(id) => {
                let each = &self.schema.enums[id];
                if self.options.enums_as_ints {
                    (FieldStep::EnumNumber(each.is_closed.then(|| Arc::clone(each))), DataType::Int32)
                } else {
                    (FieldStep::Enum(Arc::clone(each)), DataType::Utf8)
                }
            }
            FieldKind::Message(id) | FieldKind::Group(id) => return self.sub_message(id, wanted, path, depth),
        }))
    }

    fn sub_message(
        &mut self,
        id: TypeId,
        wanted: &FieldSelection,
        path: &str,
        depth: usize,
    ) -> Planned<(FieldStep, DataType)> {
        let message = &self.schema.messages[id];
        let wrapped = match &*message.name {
            "google.protobuf.Timestamp" | "google.protobuf.Duration" if !wanted.is_all() => {
                return Err(bad(path, NO_FIELDS.to_owned()));
            }
            "google.protobuf.Timestamp" => {
                let data_type = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
                return Ok(Some((FieldStep::Timestamp, data_type)));
            }
            "google.protobuf.Duration" => {
                return Ok(Some((FieldStep::Duration, DataType::Duration(TimeUnit::Microsecond))));
            }
            name => name.strip_prefix("google.protobuf.").and_then(wrapped),
        };
        match wrapped {
            Some(kind) if self.options.unwrap_primitive_wrapper_types => {
                let value = self.value(kind, wanted, path, depth)?;
                Ok(value.map(|(step, data_type)| (FieldStep::Wrapper(Box::new(step)), data_type)))
            }
            _ => {
                let message = self.message(id, wanted, path, depth)?;
                let message =
                    message.filter(|(_, fields)| self.options.retain_empty_message_types || !fields.is_empty());
                Ok(message.map(|(plan, fields)| (FieldStep::Message(Box::new(plan)), DataType::Struct(fields))))
            }
        }
    }
}

const NO_FIELDS: &str = "it has no fields";

/// Selected fields of a message, each with the selection below it.
fn chosen<'m, 'w>(
    message: &'m Message,
    wanted: &'w FieldSelection,
    path: &str,
) -> Result<Vec<(&'m Field, &'w FieldSelection)>, BadSchema> {
    static ALL: FieldSelection = FieldSelection::ALL;
    if wanted.is_all() {
        return Ok(message.fields.iter().map(|field| (field, &ALL)).collect());
    }
    let mut chosen = Vec::new();
    for (name, below) in wanted.fields() {
        let Some(field) = message.fields.iter().find(|field| *field.name == *name) else {
            let known: Vec<_> = message.fields.iter().map(|field| &*field.name).collect();
            let reason = format!("the message {} has no field {name:?}; it has {}", message.name, known.join(", "));
            return Err(bad(path, reason));
        };
        chosen.push((field, below));
    }
    Ok(chosen)
}

/// Type of the value in the wrapper of this name.
pub(crate) fn wrapped(name: &str) -> Option<FieldKind> {
    Some(match name {
        "DoubleValue" => FieldKind::Double,
        "FloatValue" => FieldKind::Float,
        "Int64Value" => FieldKind::Int64,
        "UInt64Value" => FieldKind::UInt64,
        "Int32Value" => FieldKind::Int32,
        "UInt32Value" => FieldKind::UInt32,
        "BoolValue" => FieldKind::Bool,
        "StringValue" => FieldKind::Text,
        "BytesValue" => FieldKind::Bytes,
        _ => return None,
    })
}

pub(crate) fn wire_type(kind: FieldKind) -> u8 {
    match kind {
        FieldKind::Double | FieldKind::Fixed64 | FieldKind::SFixed64 => FIXED64,
        FieldKind::Float | FieldKind::Fixed32 | FieldKind::SFixed32 => FIXED32,
        FieldKind::Text | FieldKind::Bytes | FieldKind::Message(_) => BYTES,
        FieldKind::Group(_) => GROUP,
        _ => VARINT,
    }
}

/// Assembles a message's plan; `all` are the fields of the message, some without a column.
fn message_plan(plans: Vec<(FieldPlan, Option<u32>)>, all: &[Field]) -> MessagePlan {
    let oneofs: Vec<_> = plans.iter().map(|(_, oneof)| *oneof).collect();
    let mut fields: Vec<_> = plans.into_iter().map(|(plan, _)| plan).collect();
    let is_message: Vec<_> = fields.iter().map(|field| field.step.is_message()).collect();
    let oneof_of = |oneof: u32, index: Option<usize>| {
        let others = (0..oneofs.len()).filter(|other| Some(*other) != index && oneofs[*other] == Some(oneof));
        let others: Box<[usize]> = others.collect();
        let has_messages = index.iter().chain(&others).any(|index| is_message[*index]);
        Oneof { group: oneofs.len() + oneof as usize, others, has_messages }
    };
    let hidden = all.iter().filter(|field| fields.iter().all(|known| known.number != field.number));
    let hidden = hidden.filter_map(|field| Some((field.number, oneof_of(field.oneof?, None))));
    let mut hidden: Vec<_> = hidden.filter(|(_, oneof)| !oneof.others.is_empty()).collect();
    hidden.sort_unstable_by_key(|(number, _)| *number);
    let (mut by_tag, mut by_number) = (Box::new([0; 128]), Vec::new());
    for (index, field) in fields.iter_mut().enumerate() {
        by_number.push((field.number, index));
        if let Some(oneof) = oneofs[index] {
            field.oneof = Some(Box::new(oneof_of(oneof, Some(index))));
        }
        field.is_plain = field.oneof.is_none()
            && !is_message[index]
            && !matches!(
                field.step,
                FieldStep::Enum(_) | FieldStep::EnumNumber(Some(_)) | FieldStep::List(_) | FieldStep::Map(_)
            );
        if let (0..16, Ok(place)) = (field.number, u8::try_from(index + 1)) {
            let tag = |wire: u8| field.number as usize * 8 + usize::from(wire);
            by_tag[tag(field.wire)] = place;
            if matches!(field.step, FieldStep::List(_)) && matches!(field.wire, VARINT | FIXED32 | FIXED64) {
                by_tag[tag(BYTES)] = place;
            }
        }
    }
    by_number.sort_unstable();
    let all = if fields.len() >= 64 { u64::MAX } else { (1 << fields.len()) - 1 };
    MessagePlan { fields: fields.into(), by_tag, by_number: by_number.into(), hidden: hidden.into(), all }
}

/// Selected fields in their order, each with the selection below it; empty for all.
#[derive(Debug, Default)]
struct FieldSelection(Vec<(Box<str>, Self)>);

impl FieldSelection {
    const ALL: Self = Self(Vec::new());

    /// Selection from paths such as `items.price`.
    fn of(paths: &[String]) -> Self {
        let mut wanted = Self::default();
        for path in paths {
            wanted.add(path);
        }
        wanted
    }

    fn add(&mut self, path: &str) {
        let mut at = self;
        for name in path.split('.') {
            let place = at.0.iter().position(|(known, _)| **known == *name).unwrap_or_else(|| {
                at.0.push((name.into(), Self::default()));
                at.0.len() - 1
            });
            at = &mut at.0[place].1;
        }
    }

    fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.0.iter().map(|(name, below)| (&**name, below))
    }
}
