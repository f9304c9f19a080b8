//! The files of a schema as declared, with names not resolved yet. They are read from descriptors here, and from text
//! in `text.rs`.

use super::error::{DecodeResult, ProtobufReason};
use super::wire::{BYTES, Cursor, VARINT};
use crate::json::base64;

/// Limit on the nesting of message declarations.
pub(crate) const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) package: String,
    /// `proto2`, `proto3`, or the name of an edition.
    pub(crate) syntax: String,
    pub(crate) imports: Vec<String>,
    /// The places among the imports of those that are public, and of those that are weak.
    pub(crate) public: Vec<u64>,
    pub(crate) weak: Vec<u64>,
    pub(crate) messages: Vec<Message>,
    pub(crate) enums: Vec<Enum>,
    /// True if a text declares services or extensions, of which no more is kept.
    pub(crate) has_others: bool,
    pub(crate) features: Features,
    /// Source of the file: its text, or its descriptors in base64.
    pub(crate) source: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) messages: Vec<Self>,
    pub(crate) enums: Vec<Enum>,
    /// The names of the oneofs.
    pub(crate) oneofs: Vec<String>,
    /// Statements of a descriptor about numbers and names that no field has, as `reserved 5 to 7`.
    pub(crate) reserved: Vec<String>,
    pub(crate) is_map_entry: bool,
    pub(crate) features: Features,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) number: i64,
    pub(crate) label: Label,
    /// Type number in descriptors; 0 if only its name is known.
    pub(crate) kind: u64,
    pub(crate) type_name: String,
    pub(crate) oneof: Option<u32>,
    pub(crate) is_proto3_optional: bool,
    pub(crate) features: Features,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Label {
    /// No label, or one whose meaning is given elsewhere, as in descriptors.
    #[default]
    None,
    Optional,
    Required,
    Repeated,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) values: Vec<(String, i32)>,
    pub(crate) features: Features,
}

/// Features of editions, as numbers in descriptors; 0 inherits the enclosing scope's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Features {
    /// Field presence: 1 is explicit, 2 implicit, 3 required.
    pub(crate) presence: u64,
    /// Enum type: 1 is open, 2 closed.
    pub(crate) enum_type: u64,
    /// Message encoding: 2 is delimited, as groups are.
    pub(crate) encoding: u64,
    /// Encoding of repeated fields: 1 is packed, 2 expanded.
    pub(crate) repeated: u64,
}

impl Features {
    /// Features of `self`, else the enclosing scope's.
    pub(crate) fn within(self, around: Self) -> Self {
        let or = |own: u64, around| if own == 0 { around } else { own };
        Self {
            presence: or(self.presence, around.presence),
            enum_type: or(self.enum_type, around.enum_type),
            encoding: or(self.encoding, around.encoding),
            repeated: or(self.repeated, around.repeated),
        }
    }
}

const FIELD_FEATURES: u32 = 21;

/// Returns true if these bytes are one `FileDescriptorProto`, not a set of them.
pub(crate) fn is_one_file(bytes: &[u8]) -> bool {
    file_of(bytes).is_ok_and(|file| !file.name.is_empty() && !file.messages.is_empty())
}

/// The bytes of a text that is base64 and no `.proto` text.
pub(crate) fn base64_of(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    (!text.contains(['{', ';'])).then(|| base64::decode(text, &mut bytes)).flatten()?;
    Some(bytes)
}

/// The file of a `FileDescriptorProto`.
pub(crate) fn file_of(bytes: &[u8]) -> DecodeResult<File> {
    read_file(Cursor::new(bytes, 0))
}

/// Decodes a text that is a `FileDescriptorProto` in base64, the form in which Confluent's Python serializers register
/// schemas.
pub(crate) fn encoded(name: &str, text: &str) -> Option<File> {
    let file = file_of(&base64_of(text)?).ok().filter(|file| !file.name.is_empty())?;
    Some(File { name: name.to_owned(), ..file })
}

/// Files of a `FileDescriptorSet`.
pub(crate) fn descriptor_set(bytes: &[u8]) -> DecodeResult<Vec<File>> {
    let mut files = Vec::new();
    each_field(&mut Cursor::new(bytes, 0), |number, content| {
        if let (1, Content::Bytes(file)) = (number, content) {
            let source = base64::text(file.bytes.get(file.at..).unwrap_or_default());
            files.push(File { source, ..read_file(file)? });
        }
        Ok(())
    })?;
    Ok(files)
}

enum Content<'v> {
    Number(u64),
    Bytes(Cursor<'v>),
}

fn each_field<'v>(cursor: &mut Cursor<'v>, mut met: impl FnMut(u32, Content<'v>) -> DecodeResult) -> DecodeResult {
    while !cursor.is_at_end() {
        let (number, wire) = cursor.tag()?;
        match wire {
            VARINT => met(number, Content::Number(cursor.varint()?))?,
            BYTES => {
                let (start, end) = cursor.message(number, wire)?;
                met(number, Content::Bytes(cursor.part(start, end)))?;
            }
            _ => cursor.skip(number, wire)?,
        }
    }
    Ok(())
}

fn read_text(cursor: &Cursor<'_>) -> DecodeResult<String> {
    match std::str::from_utf8(cursor.bytes.get(cursor.at..).unwrap_or_default()) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(cursor.fault(ProtobufReason::NotUtf8)),
    }
}

fn read_file(mut cursor: Cursor<'_>) -> DecodeResult<File> {
    let mut file = File::default();
    each_field(&mut cursor, |number, content| {
        match (number, content) {
            (1, Content::Bytes(name)) => file.name = read_text(&name)?,
            (2, Content::Bytes(package)) => file.package = read_text(&package)?,
            (3, Content::Bytes(import)) => file.imports.push(read_text(&import)?),
            (4, Content::Bytes(message)) => file.messages.push(read_message(message, 0)?),
            (5, Content::Bytes(each)) => file.enums.push(read_enum(each)?),
            (8, Content::Bytes(options)) => file.features = read_options(options, 50)?.0,
            (10, Content::Number(place)) => file.public.push(place),
            (11, Content::Number(place)) => file.weak.push(place),
            (12, Content::Bytes(syntax)) => file.syntax = read_text(&syntax)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(file)
}

fn read_message(mut cursor: Cursor<'_>, depth: usize) -> DecodeResult<Message> {
    if depth == MAX_DEPTH {
        return Err(cursor.fault(ProtobufReason::TooDeep));
    }
    let mut message = Message::default();
    each_field(&mut cursor, |number, content| {
        match (number, content) {
            (1, Content::Bytes(name)) => message.name = read_text(&name)?,
            (2, Content::Bytes(field)) => message.fields.push(read_field(field)?),
            (3, Content::Bytes(nested)) => message.messages.push(read_message(nested, depth + 1)?),
            (4, Content::Bytes(each)) => message.enums.push(read_enum(each)?),
            (5, Content::Bytes(range)) => message.reserved.push(format!("extensions {}", read_range(range)?)),
            // The option `map_entry` is number 7.
            (7, Content::Bytes(options)) => (message.features, message.is_map_entry) = read_options(options, 12)?,
            (8, Content::Bytes(mut oneof)) => message.oneofs.push(read_name(&mut oneof)?),
            (9, Content::Bytes(range)) => message.reserved.push(format!("reserved {}", read_range(range)?)),
            (10, Content::Bytes(name)) => message.reserved.push(format!("reserved {:?}", read_text(&name)?)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(message)
}

fn read_name(cursor: &mut Cursor<'_>) -> DecodeResult<String> {
    let mut name = String::new();
    each_field(cursor, |number, content| {
        if let (1, Content::Bytes(text)) = (number, content) {
            name = read_text(&text)?;
        }
        Ok(())
    })?;
    Ok(name)
}

/// Numbers as a text has them; those of descriptors end before their last.
fn read_range(mut cursor: Cursor<'_>) -> DecodeResult<String> {
    let (mut first, mut end) = (0, 0);
    each_field(&mut cursor, |number, content| {
        match (number, content) {
            (1, Content::Number(number)) => first = number as i64,
            (2, Content::Number(number)) => end = number as i64,
            _ => {}
        }
        Ok(())
    })?;
    Ok(match end.saturating_sub(1) {
        last if last == first => first.to_string(),
        last if last >= (1 << 29) - 1 => format!("{first} to max"),
        last => format!("{first} to {last}"),
    })
}

fn read_field(mut cursor: Cursor<'_>) -> DecodeResult<Field> {
    let mut field = Field::default();
    each_field(&mut cursor, |number, content| {
        match (number, content) {
            (1, Content::Bytes(name)) => field.name = read_text(&name)?,
            (3, Content::Number(number)) => field.number = number as i64,
            (4, Content::Number(label)) => {
                field.label = match label {
                    2 => Label::Required,
                    3 => Label::Repeated,
                    _ => Label::None,
                }
            }
            (5, Content::Number(kind)) => field.kind = kind,
            (6, Content::Bytes(name)) => field.type_name = read_text(&name)?,
            (8, Content::Bytes(options)) => field.features = read_options(options, FIELD_FEATURES)?.0,
            (9, Content::Number(oneof)) => field.oneof = Some(oneof as u32),
            (17, Content::Number(is_optional)) => field.is_proto3_optional = is_optional != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(field)
}

fn read_enum(mut cursor: Cursor<'_>) -> DecodeResult<Enum> {
    let mut read = Enum::default();
    each_field(&mut cursor, |number, content| {
        match (number, content) {
            (1, Content::Bytes(name)) => read.name = read_text(&name)?,
            (2, Content::Bytes(mut value)) => {
                let (mut name, mut of) = (String::new(), 0);
                each_field(&mut value, |number, content| {
                    match (number, content) {
                        (1, Content::Bytes(text)) => name = read_text(&text)?,
                        (2, Content::Number(value)) => of = value as i32,
                        _ => {}
                    }
                    Ok(())
                })?;
                read.values.push((name, of));
            }
            (3, Content::Bytes(options)) => read.features = read_options(options, 7)?.0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(read)
}

/// Reads the features of an options message, which have this field number, and whether option 7 is set: `map_entry` in
/// `MessageOptions`. Other callers ignore it.
fn read_options(mut cursor: Cursor<'_>, features_number: u32) -> DecodeResult<(Features, bool)> {
    let (mut features, mut is_seventh) = (Features::default(), false);
    each_field(&mut cursor, |number, content| {
        match content {
            Content::Number(value) if number == 7 => is_seventh = value != 0,
            // Number 2 is the field option `packed`.
            Content::Number(value) if number == 2 && features_number == FIELD_FEATURES => {
                features.repeated = if value == 0 { 2 } else { 1 };
            }
            Content::Bytes(mut read) if number == features_number => {
                each_field(&mut read, |number, content| {
                    match (number, content) {
                        (1, Content::Number(presence)) => features.presence = presence,
                        (2, Content::Number(enum_type)) => features.enum_type = enum_type,
                        (3, Content::Number(repeated)) => features.repeated = repeated,
                        (5, Content::Number(encoding)) => features.encoding = encoding,
                        _ => {}
                    }
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((features, is_seventh))
}
