//! Check that a writer's messages can be decoded by the reader's schema: fields are matched by number, so fields with
//! the same number must have the same encoding.

use std::collections::BTreeSet;

use super::schema::{Field, FieldKind, Presence, ProtobufSchema, TypeId};
use crate::avro::{BadSchema, bad};

/// Length of a path from which on it is not extended: a writer's messages may be nested without limit.
const MAX_PATH: usize = 1_000;

/// Refuses schemas with a common field whose encoding differs, in their messages and those nested in them.
pub(crate) fn check(writer: &ProtobufSchema, reader: &ProtobufSchema) -> Result<(), BadSchema> {
    // Iterative, because a writer's messages may be nested deeper than the reader's.
    let mut open = vec![(writer.root, reader.root, String::new())];
    let mut seen = BTreeSet::new();
    while let Some((of_writer, of_reader, path)) = open.pop() {
        if !seen.insert((of_writer, of_reader)) {
            continue;
        }
        let written = &writer.messages[of_writer].fields;
        for field in &reader.messages[of_reader].fields {
            let Some(found) = written.iter().find(|other| other.number == field.number) else { continue };
            let path = match &*path {
                "" => field.name.to_string(),
                long if long.len() > MAX_PATH => path.clone(),
                path => format!("{path}.{}", field.name),
            };
            if !is_read(found, field) {
                let (is, wanted) = (described(writer, found), described(reader, field));
                return Err(bad(&path, format!("number {} is {is} there, and {wanted} here", field.number)));
            }
            if let (Some(below), Some(here)) = (message_of(found.kind), message_of(field.kind)) {
                open.push((below, here, path));
            }
        }
    }
    Ok(())
}

/// Returns true if the writer's field can be decoded as the reader's, by Protobuf's rules for changing a type.
fn is_read(written: &Field, read: &Field) -> bool {
    let (of_writer, of_reader) = (Form::of(written.kind), Form::of(read.kind));
    // A packed field has several numbers, which a singular field cannot be read from.
    let is_packed = written.presence == Presence::Repeated && read.presence != Presence::Repeated;
    let is_number = !matches!(of_writer, Form::Text | Form::Message | Form::Group);
    if is_packed && is_number {
        return false;
    }
    match (written.kind, read.kind) {
        // The bytes of a sub-message are the message.
        (FieldKind::Message(_), FieldKind::Bytes) | (FieldKind::Bytes, FieldKind::Message(_)) => true,
        _ => of_writer == of_reader,
    }
}

/// Encoding of a type, and the meaning of its bytes or bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Varint,
    Zigzag,
    Fixed32,
    Fixed64,
    Float,
    Double,
    Text,
    Message,
    Group,
}

impl Form {
    pub(crate) fn of(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Int32
            | FieldKind::Int64
            | FieldKind::UInt32
            | FieldKind::UInt64
            | FieldKind::Bool
            | FieldKind::Enum(_) => Self::Varint,
            FieldKind::SInt32 | FieldKind::SInt64 => Self::Zigzag,
            FieldKind::Fixed32 | FieldKind::SFixed32 => Self::Fixed32,
            FieldKind::Fixed64 | FieldKind::SFixed64 => Self::Fixed64,
            FieldKind::Float => Self::Float,
            FieldKind::Double => Self::Double,
            FieldKind::Text | FieldKind::Bytes => Self::Text,
            FieldKind::Message(_) => Self::Message,
            FieldKind::Group(_) => Self::Group,
        }
    }
}

fn message_of(kind: FieldKind) -> Option<TypeId> {
    match kind {
        FieldKind::Message(id) | FieldKind::Group(id) => Some(id),
        _ => None,
    }
}

/// Type of a field in the syntax of `.proto` files.
fn described(schema: &ProtobufSchema, field: &Field) -> String {
    let name = match message_of(field.kind) {
        Some(id) if schema.messages[id].is_map_entry => "a map".to_owned(),
        Some(id) => format!("{} {}", field.kind.name(), schema.messages[id].name),
        None => field.kind.name().to_owned(),
    };
    if field.presence == Presence::Repeated && name != "a map" { format!("repeated {name}") } else { name }
}
