//! Files as `FileDescriptorProto`, which clients of a registry ask for or register in place of a text.

use super::definition::{self, Enum, Field, Label, Message};
use super::schema::scalar;
use super::text::{MAP_ENTRY, entry_name};
use super::types::{Declared, Types, entry_of};
use super::wire::{BYTES, VARINT};
use crate::error::below;
use crate::json::base64;
use crate::varint::put_varint;

const GROUP: u64 = 10;
const MESSAGE: u64 = 11;
const ENUM: u64 = 14;

/// The descriptor of a file in base64.
pub(super) fn descriptor_of(types: &Types<'_>) -> Option<String> {
    let file = types.own();
    let mut out = Descriptor::default();
    out.text(1, "default");
    out.text(2, &file.package);
    file.imports.iter().for_each(|name| out.text(3, name));
    file.public.iter().for_each(|place| out.number(10, *place));
    file.weak.iter().for_each(|place| out.number(11, *place));
    for each in &file.messages {
        out.message(4, message(types, each, &below(&file.package, &each.name))?);
    }
    file.enums.iter().for_each(|each| out.message(5, enumeration(each)));
    match &*file.syntax {
        "editions" => return None,
        "proto3" => out.text(12, "proto3"),
        _ => {}
    }
    Some(base64::text(&out.0))
}

fn message(types: &Types<'_>, message: &Message, scope: &str) -> Option<Descriptor> {
    let mut out = Descriptor::default();
    out.text(1, &message.name);
    // A field of proto3 that is optional is alone in a oneof of its own, behind the others.
    let is_alone = |field: &Field| types.own().syntax == "proto3" && field.label == Label::Optional;
    let mut oneofs = message.oneofs.clone();
    for each in &message.fields {
        let mut described = field(types, each, scope)?;
        if is_alone(each) {
            described.number(9, oneofs.len() as u64);
            described.number(17, 1);
            oneofs.push(format!("_{}", each.name));
        } else if let Some(oneof) = each.oneof {
            described.number(9, oneof.into());
        }
        out.message(2, described);
    }
    for nested in message.messages.iter().filter(|nested| !nested.is_map_entry) {
        out.message(3, self::message(types, nested, &below(scope, &nested.name))?);
    }
    for each in &message.fields {
        let Some((key, value)) = entry_of(message, each) else { continue };
        let mut entry = Descriptor::default();
        entry.text(1, &entry_name(&each.name));
        entry.message(2, field(types, key, scope)?);
        entry.message(2, field(types, value, scope)?);
        entry.option(7);
        out.message(3, entry);
    }
    message.enums.iter().for_each(|each| out.message(4, enumeration(each)));
    for name in &oneofs {
        let mut oneof = Descriptor::default();
        oneof.text(1, name);
        out.message(8, oneof);
    }
    Some(out)
}

fn field(types: &Types<'_>, field: &Field, scope: &str) -> Option<Descriptor> {
    let mut out = Descriptor::default();
    out.text(1, &field.name);
    out.number(3, field.number as u64);
    out.number(
        4,
        match field.label {
            Label::None | Label::Optional => 1,
            Label::Required => 2,
            Label::Repeated => 3,
        },
    );
    if scalar(field.kind).is_some() {
        out.number(5, field.kind);
    } else if let Some(name) = field.type_name.strip_suffix(MAP_ENTRY) {
        out.number(5, MESSAGE);
        out.text(6, &format!(".{scope}.{}", entry_name(name)));
    } else {
        let (name, declared, _) = types.find(field, scope)?;
        out.number(
            5,
            match declared {
                Declared::Enum => ENUM,
                Declared::Message(_) if field.kind == GROUP => GROUP,
                Declared::Message(_) => MESSAGE,
            },
        );
        out.text(6, &format!(".{name}"));
    }
    Some(out)
}

fn enumeration(read: &Enum) -> Descriptor {
    let mut out = Descriptor::default();
    out.text(1, &read.name);
    for (name, number) in &read.values {
        let mut value = Descriptor::default();
        value.text(1, name);
        value.number(2, i64::from(*number) as u64);
        out.message(2, value);
    }
    if has_aliases(read) {
        out.option(2);
    }
    out
}

fn has_aliases(read: &Enum) -> bool {
    let numbers = |at: usize| read.values[..at].iter().map(|(_, number)| number);
    read.values.iter().enumerate().any(|(at, (_, number))| numbers(at).any(|other| other == number))
}

/// The bytes of a message of a descriptor.
#[derive(Default)]
struct Descriptor(Vec<u8>);

impl Descriptor {
    fn number(&mut self, field: u64, value: u64) {
        put_varint(field << 3 | u64::from(VARINT), &mut self.0);
        put_varint(value, &mut self.0);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        put_varint(field << 3 | u64::from(BYTES), &mut self.0);
        put_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: Self) {
        self.bytes(field, &message.0);
    }

    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Sets an option, which of messages and enums are field 7 and 3.
    fn option(&mut self, number: u64) {
        let mut options = Self::default();
        options.number(number, 1);
        self.message(if number == 7 { 7 } else { 3 }, options);
    }
}

/// The text of a descriptor. Options are left out: they change no value that is written. Editions and groups are
/// refused.
pub(super) fn text_of(bytes: &[u8]) -> Result<String, String> {
    let none = "the base64 is that of no FileDescriptorProto";
    let file =
        definition::file_of(bytes).map_err(|fault| format!("{none}: {} (byte {})", fault.reason, fault.position))?;
    if file.syntax == "editions" {
        return Err("descriptors of editions are not taken; register the text".to_owned());
    }
    if file.messages.is_empty() && file.enums.is_empty() && file.name.is_empty() {
        return Err(none.to_owned());
    }
    let is_proto3 = file.syntax == "proto3";
    let mut text = format!("syntax = \"{}\";", if is_proto3 { "proto3" } else { "proto2" });
    if !file.package.is_empty() {
        text += &format!("package {};", file.package);
    }
    for (place, name) in (0..).zip(&file.imports) {
        let kind = match (file.public.contains(&place), file.weak.contains(&place)) {
            (true, _) => "public ",
            (_, true) => "weak ",
            _ => "",
        };
        text += &format!("import {kind}\"{name}\";");
    }
    file.messages.iter().try_for_each(|each| message_text(each, is_proto3, &mut text))?;
    file.enums.iter().for_each(|each| enum_text(each, &mut text));
    Ok(text)
}

fn message_text(message: &Message, is_proto3: bool, out: &mut String) -> Result<(), String> {
    *out += &format!("message {} {{", message.name);
    message.reserved.iter().for_each(|each| *out += &format!("{each};"));
    let mut written = vec![false; message.oneofs.len()];
    for field in &message.fields {
        let oneof = field.oneof.filter(|_| !field.is_proto3_optional);
        let Some(oneof) = oneof else {
            field_text(message, field, is_proto3, out)?;
            continue;
        };
        let (Some(name), Some(is_written)) = (message.oneofs.get(oneof as usize), written.get_mut(oneof as usize))
        else {
            return Err(format!("the field {} is in a oneof that is not there", field.name));
        };
        if std::mem::replace(is_written, true) {
            continue;
        }
        *out += &format!("oneof {name} {{");
        let mut within = message.fields.iter().filter(|other| other.oneof == Some(oneof) && !other.is_proto3_optional);
        within.try_for_each(|field| field_text(message, field, is_proto3, out))?;
        *out += "}";
    }
    let mut nested = message.messages.iter().filter(|nested| !nested.is_map_entry);
    nested.try_for_each(|nested| message_text(nested, is_proto3, out))?;
    message.enums.iter().for_each(|each| enum_text(each, out));
    *out += "}";
    Ok(())
}

fn field_text(message: &Message, field: &Field, is_proto3: bool, out: &mut String) -> Result<(), String> {
    let last = field.type_name.rsplit('.').next().unwrap_or_default();
    let entry = message.messages.iter().find(|nested| nested.is_map_entry && nested.name == last);
    let kind = match entry.map(|entry| &*entry.fields) {
        Some([key, value]) if field.label == Label::Repeated => format!("map<{}, {}>", type_of(key)?, type_of(value)?),
        _ => {
            let label = match field.label {
                Label::Required => "required ",
                Label::Repeated => "repeated ",
                _ if field.is_proto3_optional || (field.oneof.is_none() && !is_proto3) => "optional ",
                _ => "",
            };
            format!("{label}{}", type_of(field)?)
        }
    };
    *out += &format!("{kind} {} = {};", field.name, field.number);
    Ok(())
}

fn type_of(field: &Field) -> Result<String, String> {
    match (scalar(field.kind), field.kind) {
        (Some(kind), _) => Ok(kind.name().to_owned()),
        (None, MESSAGE | ENUM) => Ok(field.type_name.clone()),
        (None, GROUP) => Err("descriptors with groups are not taken; register the text".to_owned()),
        (None, other) => Err(format!("there is no type {other}")),
    }
}

fn enum_text(read: &Enum, out: &mut String) {
    *out += &format!("enum {} {{", read.name);
    if has_aliases(read) {
        *out += "option allow_alias = true;";
    }
    read.values.iter().for_each(|(name, number)| *out += &format!("{name} = {number};"));
    *out += "}";
}
