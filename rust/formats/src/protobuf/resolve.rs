//! Whether values of a writer's schema can be read by the reader's: fields are known by their numbers, so those of one
//! number must be written alike.

use std::collections::BTreeSet;

use super::schema::{Field, Kind, Presence, ProtobufSchema, TypeId, bad};
use crate::avro::BadSchema;

/// From which length on a path goes no deeper: a writer's messages may be in each other as deep as they like.
const MAX_PATH: usize = 1_000;

/// Checks the fields that the messages of both schemas have, and those of the messages in them.
///
/// # Errors
/// The first field whose type is written in another way, with both types.
pub(crate) fn check(writer: &ProtobufSchema, reader: &ProtobufSchema) -> Result<(), BadSchema> {
    // Not by recursion: a writer's messages may be in each other deeper than the reader's.
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

/// Whether what is written as one field is read as the other, as Protobuf's rules for changing a type have it.
fn is_read(written: &Field, read: &Field) -> bool {
    let (of_writer, of_reader) = (Form::of(written.kind), Form::of(read.kind));
    // Several numbers are packed into one, of which a field that is not repeated cannot be read.
    let is_packed = written.presence == Presence::Repeated && read.presence != Presence::Repeated;
    let is_number = !matches!(of_writer, Form::Text | Form::Message | Form::Group);
    if is_packed && is_number {
        return false;
    }
    match (written.kind, read.kind) {
        // The bytes of a message are the message.
        (Kind::Message(_), Kind::Bytes) | (Kind::Bytes, Kind::Message(_)) => true,
        _ => of_writer == of_reader,
    }
}

/// How a type is written, and what its bytes or bits mean.
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
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Int32 | Kind::Int64 | Kind::UInt32 | Kind::UInt64 | Kind::Bool | Kind::Enum(_) => Self::Varint,
            Kind::SInt32 | Kind::SInt64 => Self::Zigzag,
            Kind::Fixed32 | Kind::SFixed32 => Self::Fixed32,
            Kind::Fixed64 | Kind::SFixed64 => Self::Fixed64,
            Kind::Float => Self::Float,
            Kind::Double => Self::Double,
            Kind::Text | Kind::Bytes => Self::Text,
            Kind::Message(_) => Self::Message,
            Kind::Group(_) => Self::Group,
        }
    }
}

fn message_of(kind: Kind) -> Option<TypeId> {
    match kind {
        Kind::Message(id) | Kind::Group(id) => Some(id),
        _ => None,
    }
}

/// A field's type, as `.proto` files have it.
fn described(schema: &ProtobufSchema, field: &Field) -> String {
    let name = match message_of(field.kind) {
        Some(id) if schema.messages[id].is_map_entry => "a map".to_owned(),
        Some(id) => format!("{} {}", field.kind.name(), schema.messages[id].name),
        None => field.kind.name().to_owned(),
    };
    if field.presence == Presence::Repeated && name != "a map" { format!("repeated {name}") } else { name }
}
