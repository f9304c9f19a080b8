//! Binds columns to the fields of messages: maps values to values, and refuses columns that do not fit.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;

use super::node::{Form, Map, Message, MessageField, Node, Root, Values, tag};
use crate::avro::{BadSchema, bad};
use crate::error::below;
use crate::protobuf::plan::{wire_type, wrapped};
use crate::protobuf::schema::{Field, FieldKind, Presence, ProtobufSchema, TypeId};
use crate::protobuf::wire::{BYTES, END_GROUP};
use crate::writing::{Bounds, Decimals, Entries, Floats, Ints, Meaning, Texts, Times, check_columns, indexed, units};

/// Limit on the nesting of messages: Google's parsers accept a hundred levels.
const MAX_DEPTH: usize = 64;

pub(super) struct Binder<'s> {
    pub(super) schema: &'s ProtobufSchema,
    pub(super) unsigned_as_signed: bool,
}

type Bound<T> = Result<T, BadSchema>;

impl Binder<'_> {
    /// Binds a whole column. Its null rows are records without a value, and are not encoded.
    pub(super) fn root<'a>(&self, column: &'a ArrayRef) -> Bound<Root<'a>> {
        if let Some((indices, values)) = indexed(column) {
            return Ok(Root::Indexed(indices, Box::new(self.root(values)?)));
        }
        let name = &self.schema.messages[self.schema.root].name;
        if matches!(column.data_type(), DataType::Null) {
            return Ok(Root::Message(Message { members: Vec::new(), oneofs: Vec::new() }));
        }
        let Some(structs) = column.as_struct_opt() else {
            let given = column.data_type();
            return Err(bad("", format!("the column is of type {given}; the message {name} is a struct")));
        };
        self.message(self.schema.root, structs, "", 0).map(Root::Message)
    }

    fn message<'a>(&self, id: TypeId, structs: &'a StructArray, path: &str, depth: usize) -> Bound<Message<'a>> {
        let message = &self.schema.messages[id];
        if depth > MAX_DEPTH {
            return Err(bad(path, format!("messages are nested deeper than {MAX_DEPTH}")));
        }
        let names: Vec<&str> = message.fields.iter().map(|field| &*field.name).collect();
        check_columns(&format!("the message {}", message.name), &names, structs, path)?;
        let mut fields: Vec<&Field> = message.fields.iter().collect();
        fields.sort_unstable_by_key(|field| field.number);
        let (mut members, mut oneofs) = (Vec::new(), Vec::new());
        for field in fields {
            let path = below(path, &field.name);
            let is_required = field.presence == Presence::Required;
            let Some((index, given)) = structs.fields().find(&field.name) else {
                if is_required {
                    let reason = format!("there is no column for this field of {}, which is required", message.name);
                    return Err(bad(&path, reason));
                }
                continue;
            };
            let column = structs.column(index);
            let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            let (form, wire) = self.form(field, column, Meaning::of(given), &path, depth)?;
            oneofs.push(field.oneof);
            members.push(MessageField {
                name: field.name.clone(),
                tag: tag(field.number, wire),
                nulls,
                is_required,
                form,
            });
        }
        Ok(Message { oneofs: shared(&oneofs), members })
    }

    /// Values of a field, and its wire type.
    fn form<'a>(
        &self,
        field: &Field,
        column: &'a ArrayRef,
        meaning: Meaning,
        path: &str,
        depth: usize,
    ) -> Bound<(Form<'a>, u8)> {
        let wire = wire_type(field.kind);
        if matches!(column.data_type(), DataType::Null) {
            return Ok((Form::Nothing, wire));
        }
        if field.presence != Presence::Repeated {
            let node = self.node(field, column, meaning, path, depth)?;
            return Ok((Form::One(node, field.presence == Presence::Implicit), wire));
        }
        if let Some((indices, values)) = indexed(column) {
            let (form, wire) = self.form(field, values, meaning, path, depth)?;
            return Ok((Form::Indexed(indices, Box::new(form)), wire));
        }
        if let FieldKind::Message(id) = field.kind
            && self.schema.messages[id].is_map_entry
        {
            return Ok((self.map(id, column, path, depth)?, BYTES));
        }
        let Some((bounds, items)) = Bounds::of(column) else { return Err(self.unfit("a list", field, column, path)) };
        let items = self.node(field, items, Meaning::of_items(column.data_type()), &format!("{path}[]"), depth)?;
        Ok(match field.is_packed {
            true => (Form::Packed(bounds, items), BYTES),
            false => (Form::Each(bounds, items), wire),
        })
    }

    fn map<'a>(&self, entry: TypeId, column: &'a ArrayRef, path: &str, depth: usize) -> Bound<Form<'a>> {
        let entry = &self.schema.messages[entry];
        let by_number = |number| entry.fields.iter().find(|field| field.number == number);
        let (Some(key), Some(value)) = (by_number(1), by_number(2)) else {
            return Err(bad(path, "a map without key or value"));
        };
        let Some((entries, columns)) = Entries::of(column) else {
            return Err(self.unfit("a map", value, column, path));
        };
        let path = format!("{path}{{}}");
        let keys = self.node(key, columns.keys, Meaning::Storage, &path, depth)?;
        let meaning = Meaning::of_map_values(column.data_type());
        let values = self.node(value, columns.values, meaning, &path, depth)?;
        let map = Map {
            entries,
            key_tag: tag(1, wire_type(key.kind)),
            keys,
            value_tag: tag(2, wire_type(value.kind)),
            values,
        };
        Ok(Form::Map(Box::new(map)))
    }

    fn node<'a>(
        &self,
        field: &Field,
        array: &'a ArrayRef,
        meaning: Meaning,
        path: &str,
        depth: usize,
    ) -> Bound<Node<'a>> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some((indices, values)) = indexed(array) {
            let values = Values::Indexed(indices, Box::new(self.node(field, values, meaning, path, depth)?));
            return Ok(Node { nulls, values });
        }
        let found = match field.kind {
            _ if matches!(array.data_type(), DataType::Null) => Some(Values::Nulls),
            FieldKind::Message(id) | FieldKind::Group(id) => {
                self.sub_message(id, field, (array, meaning), path, depth)?
            }
            kind => self.scalar(kind, array, meaning),
        };
        match found {
            Some(values) => Ok(Node { nulls, values }),
            None => Err(self.unfit(self.expected(field.kind), field, array, path)),
        }
    }

    fn sub_message<'a>(
        &self,
        id: TypeId,
        field: &Field,
        (array, meaning): (&'a ArrayRef, Meaning),
        path: &str,
        depth: usize,
    ) -> Bound<Option<Values<'a>>> {
        if let Some(structs) = array.as_struct_opt() {
            let message = self.message(id, structs, path, depth + 1)?;
            return Ok(Some(match field.kind {
                FieldKind::Group(_) => Values::Group(message, tag(field.number, END_GROUP)),
                _ => Values::Message(message),
            }));
        }
        let name = &*self.schema.messages[id].name;
        let own = match array.data_type() {
            DataType::Timestamp(unit, _) | DataType::Duration(unit) => units(*unit),
            _ => 1,
        };
        Ok(match name.strip_prefix("google.protobuf.") {
            Some("Timestamp") => Times::timestamp(array, own, true).map(|times| Values::Timestamp(times, own)),
            Some("Duration") => Times::duration(array, own).map(|times| Values::Duration(times, own)),
            Some(other) => wrapped(other).and_then(|kind| {
                let value = self.scalar(kind, array, meaning)?;
                Some(Values::Wrapper(tag(1, wire_type(kind)), Box::new(value)))
            }),
            None => None,
        })
    }

    fn scalar<'a>(&self, kind: FieldKind, array: &'a ArrayRef, meaning: Meaning) -> Option<Values<'a>> {
        let ints = || Ints::of(array);
        let whole = |is_double| Ints::of(array).map(|ints| Values::IntsAsFloats(ints, is_double));
        let decimals = || Decimals::of(array, 20, 0);
        match kind {
            FieldKind::UInt32 | FieldKind::Fixed32 if self.has_bits_of(array, &DataType::Int32) => {
                ints().map(|ints| Values::BitsOf32(ints, kind == FieldKind::Fixed32))
            }
            FieldKind::UInt64 | FieldKind::Fixed64 if self.has_bits_of(array, &DataType::Int64) => {
                ints().map(|ints| Values::BitsOf64(ints, kind == FieldKind::Fixed64))
            }
            FieldKind::Double => Floats::of(array).map(Values::Double).or_else(|| whole(true)),
            FieldKind::Float => Floats::of(array).map(Values::Float).or_else(|| whole(false)),
            FieldKind::Int32 => ints().map(Values::Int32),
            FieldKind::Int64 => ints().map(Values::Int64),
            FieldKind::UInt32 => ints().map(Values::UInt32),
            FieldKind::UInt64 => ints().map(Values::UInt64).or_else(|| decimals().map(Values::UInt64OfDecimal)),
            FieldKind::SInt32 => ints().map(Values::SInt32),
            FieldKind::SInt64 => ints().map(Values::SInt64),
            FieldKind::Fixed32 => ints().map(Values::Fixed32),
            FieldKind::Fixed64 => ints().map(Values::Fixed64).or_else(|| decimals().map(Values::Fixed64OfDecimal)),
            FieldKind::SFixed32 => ints().map(Values::SFixed32),
            FieldKind::SFixed64 => ints().map(Values::SFixed64),
            FieldKind::Bool => array.as_boolean_opt().map(|booleans| Values::Bool(booleans.values().clone())),
            FieldKind::Text if meaning == Meaning::Uuid => Texts::of_bytes(array).map(Values::Uuid),
            FieldKind::Text => Texts::of_texts(array).map(Values::Bytes),
            FieldKind::Bytes => Texts::of_bytes(array).map(Values::Bytes),
            FieldKind::Enum(id) => {
                let names = |texts| Values::EnumName(texts, Arc::clone(&self.schema.enums[id]));
                let numbers = |ints| Values::EnumNumber(ints, Arc::clone(&self.schema.enums[id]));
                Texts::of_texts(array).map(names).or_else(|| ints().map(numbers))
            }
            FieldKind::Message(_) | FieldKind::Group(_) => None,
        }
    }

    /// Returns true if a signed column holds the bits of unsigned numbers. Columns of other widths hold the numbers
    /// themselves.
    fn has_bits_of(&self, array: &ArrayRef, data_type: &DataType) -> bool {
        self.unsigned_as_signed && array.data_type() == data_type
    }

    /// Columns that a type can be encoded from, for errors.
    fn expected(&self, kind: FieldKind) -> &'static str {
        match kind {
            FieldKind::Double | FieldKind::Float => "a floating number, to which others are cast first, or a whole one",
            FieldKind::Bool => "a boolean",
            FieldKind::Text => "a string",
            FieldKind::Bytes => "binary or a string",
            FieldKind::Enum(_) => "a string, the name, or an integer, the number",
            FieldKind::Message(id) | FieldKind::Group(id) => match &*self.schema.messages[id].name {
                "google.protobuf.Timestamp" => {
                    "a timestamp with a zone: say which zone its times are in, by .dt.tz_localize(\"UTC\") of pandas, \
                     .dt.replace_time_zone(\"UTC\") of polars, pyarrow.compute.assume_timezone"
                }
                "google.protobuf.Duration" => "a duration",
                name if name.strip_prefix("google.protobuf.").and_then(wrapped).is_some() => "the value in it",
                _ => "a struct",
            },
            _ => "an integer, or a decimal without places behind the point",
        }
    }

    fn unfit(&self, expected: &str, field: &Field, array: &ArrayRef, path: &str) -> BadSchema {
        let (given, kind) = (array.data_type(), self.text(field.kind));
        bad(path, format!("the column is of type {given}, and the schema has {kind} there; expected {expected}"))
    }

    /// Name of the type, for errors.
    fn text(&self, kind: FieldKind) -> &str {
        match kind {
            FieldKind::Message(id) | FieldKind::Group(id) => &self.schema.messages[id].name,
            other => other.name(),
        }
    }
}

/// Bound members of each oneof that has several of them.
fn shared(oneofs: &[Option<u32>]) -> Vec<Vec<usize>> {
    let mut numbers: Vec<u32> = oneofs.iter().flatten().copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let members = |number| (0..oneofs.len()).filter(|index| oneofs[*index] == Some(number)).collect::<Vec<_>>();
    numbers.into_iter().map(members).filter(|members| members.len() > 1).collect()
}
