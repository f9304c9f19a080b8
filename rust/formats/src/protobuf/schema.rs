//! Protobuf schemas with resolved names: messages, enums, and the root message of the values.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::definition::{self, Features, File, Label};
use super::text;
use crate::avro::{BadSchema, bad};
use crate::error::below;

/// Index of a message or enum in its list.
pub(crate) type TypeId = usize;

/// Messages of some files, and the root message of the values.
#[derive(Debug, Clone)]
pub struct ProtobufSchema {
    pub(crate) messages: Vec<Message>,
    /// Enums of all files. Shared, since each field of an enum type holds its enum.
    pub(crate) enums: Vec<Arc<Enum>>,
    pub(crate) root: TypeId,
    /// All files, in the order of their numbers.
    files: Arc<[ProtobufFile]>,
}

/// A file of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtobufFile {
    /// Name by which other files import it.
    pub name: String,
    /// The text, or its descriptors in base64: registries accept both.
    pub text: String,
    /// Names of the files that it imports.
    pub imports: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// Full name, with the package.
    pub(crate) name: Box<str>,
    pub(crate) file: usize,
    /// Index in the file, preceded by the indexes of the enclosing messages.
    pub(crate) indexes: Box<[u32]>,
    pub(crate) fields: Vec<Field>,
    pub(crate) is_map_entry: bool,
}

impl Message {
    /// Full name. For map entries read from text, the name that compilers give them: `ByNameEntry` of the field
    /// `by_name`.
    fn full_name(&self) -> Cow<'_, str> {
        let Some((scope, field)) =
            self.name.strip_suffix(text::MAP_ENTRY).map(|path| path.rsplit_once('.').unwrap_or(("", path)))
        else {
            return Cow::Borrowed(&self.name);
        };
        Cow::Owned(format!("{scope}.{}", text::entry_name(field)))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) number: u32,
    pub(crate) kind: FieldKind,
    pub(crate) presence: Presence,
    pub(crate) oneof: Option<u32>,
    /// True if the elements of a list are encoded as one field.
    pub(crate) is_packed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Presence not tracked: a missing field has its type's zero.
    Implicit,
    /// Presence tracked: a missing field has no value.
    Explicit,
    Required,
    Repeated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Double,
    Float,
    Int64,
    UInt64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    Text,
    Bytes,
    UInt32,
    SFixed32,
    SFixed64,
    SInt32,
    SInt64,
    Enum(TypeId),
    Message(TypeId),
    Group(TypeId),
}

impl FieldKind {
    /// Keyword of the type in `.proto` files, or the kind of a type that has a name of its own.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Float => "float",
            Self::Int64 => "int64",
            Self::UInt64 => "uint64",
            Self::Int32 => "int32",
            Self::Fixed64 => "fixed64",
            Self::Fixed32 => "fixed32",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::UInt32 => "uint32",
            Self::SFixed32 => "sfixed32",
            Self::SFixed64 => "sfixed64",
            Self::SInt32 => "sint32",
            Self::SInt64 => "sint64",
            Self::Enum(_) => "an enum",
            Self::Message(_) => "the message",
            Self::Group(_) => "the group",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Enum {
    pub(crate) values: BTreeMap<i32, Box<str>>,
    pub(crate) numbers: BTreeMap<Box<str>, i32>,
    /// True if fields with an unknown number count as missing.
    pub(crate) is_closed: bool,
}

impl ProtobufSchema {
    /// Schema of a `FileDescriptorSet`, as `protoc --descriptor_set_out --include_imports` writes it, for a message by
    /// its full name. The name may be omitted if the last file has only one message.
    ///
    /// # Errors
    /// Invalid bytes, a type that is not in the set, or a message that is not in the set.
    pub fn from_descriptor_set(bytes: &[u8], message: Option<&str>) -> Result<Self, BadSchema> {
        let files = definition::descriptor_set(bytes).map_err(|fault| {
            let reason = match definition::is_one_file(bytes) {
                true => "the bytes are of one file, and not of a FileDescriptorSet, which has those that it imports, \
                         too: give one of protoc --include_imports, or the class or module of the message"
                    .to_owned(),
                false => format!("the bytes are no FileDescriptorSet: {} (byte {})", fault.reason, fault.position),
            };
            bad("", reason)
        })?;
        Self::of_files(&files, message)
    }

    /// Same as [`Self::from_descriptor_set`], from `.proto` texts with the names by which they are imported; the last
    /// one has the message. Google's files that come with every compiler need not be given. In place of a text, the
    /// descriptors of a file in base64 are accepted, as some registries return them.
    ///
    /// # Errors
    /// Invalid text, a type that is not declared, or a message that does not exist.
    pub fn from_texts(texts: &[(String, String)], message: Option<&str>) -> Result<Self, BadSchema> {
        let mut files = Vec::new();
        for (name, text) in texts {
            let file = match definition::encoded(name, text) {
                Some(file) => file,
                None => text::parse(name, text).map_err(|reason| bad(name, reason))?,
            };
            files.push(File { source: text.clone(), ..file });
        }
        let imports: BTreeSet<_> = files.iter().flat_map(|file| file.imports.clone()).collect();
        for name in imports.into_iter().filter(|name| texts.iter().all(|(given, _)| given != name)) {
            // Only Google's files can be supplied here. Other missing files may be unnecessary, such as those that
            // declare options.
            if let Some(text) = text::well_known(&name) {
                files.insert(0, text::parse(&name, &text).map_err(|reason| bad(&name, reason))?);
            }
        }
        Self::of_files(&files, message)
    }

    /// Full name of the root message.
    pub fn message(&self) -> &str {
        &self.messages[self.root].name
    }

    /// Returns true if both are the same schema with the same root message, whatever their files are called.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.messages, &self.enums, self.root) == (&other.messages, &other.enums, other.root)
    }

    /// File that declares the root message, preceded by its direct and indirect imports, as far as they were given.
    pub fn files(&self) -> Vec<&ProtobufFile> {
        let declares = self.messages[self.root].file;
        let mut found = Vec::new();
        self.add_file(declares, &mut vec![false; self.files.len()], &mut found);
        found
    }

    fn add_file<'s>(&'s self, number: usize, seen: &mut [bool], found: &mut Vec<&'s ProtobufFile>) {
        let (Some(file), Some(is_seen)) = (self.files.get(number), seen.get_mut(number)) else { return };
        if std::mem::replace(is_seen, true) {
            return;
        }
        for import in &file.imports {
            if let Some(imported) = self.files.iter().position(|other| other.name == *import) {
                self.add_file(imported, seen, found);
            }
        }
        found.push(file);
    }

    /// Index of the root message in its file, preceded by the indexes of the enclosing messages.
    pub fn indexes(&self) -> &[u32] {
        &self.messages[self.root].indexes
    }

    /// Same as [`Self::indexes`], but without counting map entries, as Confluent's Java serializer does for textual
    /// schemas. `None` if there is no difference, or if the result is the index of another message in the normal count.
    pub fn indexes_without_maps(&self) -> Option<Box<[u32]>> {
        let root = &self.messages[self.root];
        let mut indexes = root.indexes.clone();
        for message in self.messages.iter().filter(|message| message.is_map_entry && message.file == root.file) {
            let Some((last, scope)) = message.indexes.split_last() else { continue };
            if root.indexes.starts_with(scope) && root.indexes.get(scope.len()).is_some_and(|index| last < index) {
                indexes[scope.len()] -= 1;
            }
        }
        (indexes != root.indexes && self.named_by(&indexes).is_none()).then_some(indexes)
    }

    /// Full name of the message with these indexes in the root message's file.
    pub fn named_by(&self, indexes: &[u32]) -> Option<&str> {
        let file = self.messages[self.root].file;
        let found = self.messages.iter().find(|message| message.file == file && *message.indexes == *indexes);
        found.filter(|message| !message.is_map_entry).map(|message| &*message.name)
    }

    /// Sorted full names of all messages in the root message's file, including map entries, as AWS Glue's serializers
    /// count them.
    pub(crate) fn sorted_by_name(&self) -> Vec<Cow<'_, str>> {
        let file = self.messages[self.root].file;
        let mut names: Vec<_> =
            self.messages.iter().filter(|message| message.file == file).map(Message::full_name).collect();
        names.sort_unstable();
        names
    }

    /// Returns true if Apicurio's deserializers resolve this name, without package and enclosing messages, to the root
    /// message. They prefer top-level messages.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let root = &self.messages[self.root];
        let is_called = |message: &Message| message.name.rsplit('.').next() == Some(name);
        let is_outer = |message: &Message| message.file == root.file && message.indexes.len() == 1;
        is_called(root)
            && (is_outer(root) || !self.messages.iter().any(|message| is_outer(message) && is_called(message)))
    }

    /// Resolves the names of files. The last file declares the root message, unless `message` names one of another
    /// file.
    pub(crate) fn of_files(files: &[File], message: Option<&str>) -> Result<Self, BadSchema> {
        let mut linker = Linker::default();
        for (number, file) in files.iter().enumerate() {
            linker.declare(number, &file.package, &[], (&file.messages, &file.enums), features(file))?;
        }
        for file in files {
            for message in &file.messages {
                linker.link(message, &file.package, features(file))?;
            }
        }
        if let (None, Some(last)) = (message, files.last())
            && let Some(other) = files.iter().find(|file| file.imports.contains(&last.name))
        {
            let (last, other) = (&last.name, &other.name);
            let reason = format!("{last} is the last file, and {other} imports it");
            return Err(BadSchema::new("", reason).with_hint(format!("give `message=`, or {other} last")));
        }
        let Linker { messages, enums, .. } = linker;
        let last = files.len().wrapping_sub(1);
        let mut of_last =
            (0..messages.len()).filter(|id| messages[*id].file == last && messages[*id].indexes.len() == 1);
        let root = match message {
            Some(name) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                messages.iter().position(|message| *message.name == *name && !message.is_map_entry)
            }
            None => of_last.next(),
        };
        let (Some(root), others) = (root, of_last.next()) else {
            // Messages of the last file come first, since most often it imports the others.
            let known = names(messages.iter().rev());
            let reason = match message {
                Some(name) if known.is_empty() => {
                    format!("there is no message {name}: the schema has no messages at all")
                }
                Some(name) => format!("there is no message {name}; there are {known}"),
                None => "there is no message in the schema".to_owned(),
            };
            return Err(bad("", reason));
        };
        if message.is_none() && others.is_some() {
            let known = names(messages.iter().filter(|message| message.file == last));
            let hint = format!("give `message=`, one of {known}");
            return Err(BadSchema::new("", "there are several messages").with_hint(hint));
        }
        let of = |file: &File| ProtobufFile {
            name: file.name.clone(),
            text: file.source.clone(),
            imports: file.imports.clone(),
        };
        Ok(Self { messages, enums, root, files: files.iter().map(of).collect() })
    }
}

fn names<'m>(messages: impl Iterator<Item = &'m Message>) -> String {
    let mut names: Vec<_> = messages.filter(|message| !message.is_map_entry).map(|message| &*message.name).collect();
    let count = names.len();
    names.truncate(20);
    let more = if count > 20 { ", ..." } else { "" };
    format!("{}{more}", names.join(", "))
}

#[derive(Default)]
struct Linker {
    messages: Vec<Message>,
    enums: Vec<Arc<Enum>>,
    by_name: BTreeMap<String, FieldKind>,
}

/// Features that the syntax of a file implies.
fn features(file: &File) -> Features {
    let own = match &*file.syntax {
        "proto3" => Features { presence: 2, enum_type: 1, encoding: 1, repeated: 1 },
        "editions" => Features { presence: 1, enum_type: 1, encoding: 1, repeated: 1 },
        _ => Features { presence: 1, enum_type: 2, encoding: 1, repeated: 2 },
    };
    file.features.within(own)
}

impl Linker {
    fn declare(
        &mut self,
        file: usize,
        scope: &str,
        indexes: &[u32],
        (messages, enums): (&[definition::Message], &[definition::Enum]),
        features: Features,
    ) -> Result<(), BadSchema> {
        for each in enums {
            let (mut values, mut numbers) = (BTreeMap::new(), BTreeMap::new());
            for (name, number) in &each.values {
                numbers.insert(name.as_str().into(), *number);
                // Aliases: the first of several names of a number is the one to show.
                values.entry(*number).or_insert_with(|| name.as_str().into());
            }
            let is_closed = each.features.within(features).enum_type == 2;
            self.name(below(scope, &each.name), FieldKind::Enum(self.enums.len()))?;
            self.enums.push(Arc::new(Enum { values, numbers, is_closed }));
        }
        for (index, message) in messages.iter().enumerate() {
            let name = below(scope, &message.name);
            let indexes = [indexes, &[index as u32]].concat();
            self.name(name.clone(), FieldKind::Message(self.messages.len()))?;
            self.messages.push(Message {
                name: name.as_str().into(),
                file,
                indexes: indexes.as_slice().into(),
                fields: Vec::new(),
                is_map_entry: message.is_map_entry,
            });
            let features = message.features.within(features);
            self.declare(file, &name, &indexes, (&message.messages, &message.enums), features)?;
        }
        Ok(())
    }

    fn name(&mut self, name: String, kind: FieldKind) -> Result<(), BadSchema> {
        match self.by_name.insert(name.clone(), kind) {
            None => Ok(()),
            Some(_) => Err(bad(&name, "there are two types of this name".to_owned())),
        }
    }

    fn link(&mut self, message: &definition::Message, scope: &str, features: Features) -> Result<(), BadSchema> {
        let (name, features) = (below(scope, &message.name), message.features.within(features));
        let mut fields = Vec::new();
        for field in &message.fields {
            let linked = self.field(field, &name, message.is_map_entry, features);
            fields.push(linked.map_err(|bad| BadSchema { path: below(&name, &field.name), ..bad })?);
        }
        let mut numbers: Vec<_> = fields.iter().map(|field| (field.number, &field.name)).collect();
        numbers.sort_unstable();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(bad(&name, format!("two fields have the number {}", pair[0].0)));
        }
        let mut known = BTreeSet::new();
        if let Some(field) = fields.iter().find(|field| !known.insert(&*field.name)) {
            return Err(bad(&name, format!("two fields have the name {}", field.name)));
        }
        if let Some(FieldKind::Message(id)) = self.by_name.get(&name) {
            self.messages[*id].fields = fields;
        }
        for nested in &message.messages {
            self.link(nested, &name, features)?;
        }
        Ok(())
    }

    fn field(
        &self,
        field: &definition::Field,
        scope: &str,
        is_of_map: bool,
        features: Features,
    ) -> Result<Field, BadSchema> {
        let features = field.features.within(features);
        let kind = match field.kind {
            0 | 10 | 11 | 14 => self.find(&field.type_name, scope)?,
            number => scalar(number).ok_or_else(|| bad("", format!("there is no type {number}")))?,
        };
        let kind = match kind {
            // Map entries and their values are never delimited.
            FieldKind::Message(id)
                if field.kind == 10 || (features.encoding == 2 && !is_of_map && !self.messages[id].is_map_entry) =>
            {
                FieldKind::Group(id)
            }
            kind => kind,
        };
        let is_message = matches!(kind, FieldKind::Message(_) | FieldKind::Group(_));
        let is_explicit =
            field.is_proto3_optional || field.oneof.is_some() || field.label == Label::Optional || is_message;
        let presence = match (field.label, features.presence) {
            (Label::Repeated, _) => Presence::Repeated,
            (Label::Required, _) | (_, 3) => Presence::Required,
            (_, 1) => Presence::Explicit,
            _ if is_explicit => Presence::Explicit,
            _ => Presence::Implicit,
        };
        let is_packable = !is_message && !matches!(kind, FieldKind::Text | FieldKind::Bytes);
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if field.name.is_empty() || !field.name.chars().all(is_of_name) {
            return Err(bad("", format!("{:?} is not the name of a field: it has letters, digits and _", field.name)));
        }
        let number = u32::try_from(field.number).ok().filter(|number| (1..1 << 29).contains(number));
        Ok(Field {
            name: field.name.as_str().into(),
            number: number.ok_or_else(|| bad("", format!("{} is not the number of a field", field.number)))?,
            kind,
            presence,
            is_packed: presence == Presence::Repeated && is_packable && features.repeated == 1,
            oneof: field.oneof.filter(|_| !field.is_proto3_optional),
        })
    }

    /// Resolves a name, from the innermost scope outwards, as in C++.
    fn find(&self, name: &str, scope: &str) -> Result<FieldKind, BadSchema> {
        let found = find(&self.by_name, name, scope).map(|(_, kind)| *kind);
        found.ok_or_else(|| {
            let reason = format!("the type {name} is nowhere declared");
            BadSchema::new("", reason).with_hint("`the files that are imported must be given, too`")
        })
    }
}

/// The full name and what is declared by it, of a name that is looked up from the inside out, as in C++.
pub(crate) fn find<'d, T>(
    declared: &'d BTreeMap<String, T>,
    name: &str,
    mut scope: &str,
) -> Option<(&'d String, &'d T)> {
    if let Some(full) = name.strip_prefix('.') {
        return declared.get_key_value(full);
    }
    loop {
        let found = declared.get_key_value(&below(scope, name));
        if found.is_some() || scope.is_empty() {
            return found;
        }
        scope = scope.rfind('.').map_or("", |dot| &scope[..dot]);
    }
}

/// The type of a number in descriptors.
pub(crate) fn scalar(number: u64) -> Option<FieldKind> {
    Some(match number {
        1 => FieldKind::Double,
        2 => FieldKind::Float,
        3 => FieldKind::Int64,
        4 => FieldKind::UInt64,
        5 => FieldKind::Int32,
        6 => FieldKind::Fixed64,
        7 => FieldKind::Fixed32,
        8 => FieldKind::Bool,
        9 => FieldKind::Text,
        12 => FieldKind::Bytes,
        13 => FieldKind::UInt32,
        15 => FieldKind::SFixed32,
        16 => FieldKind::SFixed64,
        17 => FieldKind::SInt32,
        18 => FieldKind::SInt64,
        _ => return None,
    })
}
