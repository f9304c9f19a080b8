//! A schema as a registry keeps it: one file, beside those that it imports.

use std::collections::{BTreeMap, BTreeSet};

use super::compatibility::differences;
use super::definition::{self, Enum, Field, File, Message};
use super::descriptor;
use super::schema::scalar;
use super::text;
use super::types::{Declared, Types, entry_of, value_of};
use crate::avro::{BadSchema, bad};
use crate::json::base64;

/// Folders of files that come with compilers: no registry is given them, so their types are not looked for.
const UNCHECKED: [&str; 3] = ["google/", "confluent/", "buf/"];

/// A file of Protobuf that was understood and checked as compilers do, with all that it imports.
#[derive(Debug)]
pub struct ParsedProtobuf {
    own: File,
    /// The files that it imports, each behind those that it imports itself.
    imported: Vec<File>,
    text: String,
    /// The descriptor in base64 that was given in place of a text.
    given: Option<String>,
}

impl ParsedProtobuf {
    /// Reads a text, or a `FileDescriptorProto` in base64. The `others` have the names by which they are imported.
    ///
    /// # Errors
    /// Text that is no schema.
    pub fn parse(text: &str, others: &[(String, String)]) -> Result<Self, BadSchema> {
        let mut imported = BTreeMap::new();
        for (name, other) in others {
            let file = text::parse(name, other).and_then(|file| check(&file).map(|()| file));
            imported.insert(name.as_str(), file.map_err(|reason| bad(name, reason))?);
        }
        Self::read(text, &imported).map_err(|reason| bad("", reason))
    }

    fn read(text: &str, imported: &BTreeMap<&str, File>) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the schema is empty".to_owned());
        }
        let described = definition::base64_of(&text.split_whitespace().collect::<String>());
        let text = match &described {
            None => text.to_owned(),
            Some(bytes) => descriptor::text_of(bytes)?,
        };
        let file = text::parse("", &text)?;
        check(&file)?;
        if file.messages.is_empty() && file.enums.is_empty() && file.imports.is_empty() && !file.has_others {
            return Err("nothing is declared in it".to_owned());
        }
        let mut files = Vec::new();
        add_imports(&file, imported, &mut BTreeSet::new(), &mut files)?;
        let given = described.map(|bytes| base64::text(&bytes));
        let parsed = Self { own: file, imported: files, text: text::canonical(&text)?, given };
        parsed.check_names()?;
        Ok(parsed)
    }

    /// The text in one form, without comments and with one statement a line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The `FileDescriptorProto` in base64: the given one, or that of the text, without options, services and
    /// extensions. None of editions, whose features would be lost, and if there are types of which only the name is
    /// known.
    pub fn descriptor(&self) -> Option<String> {
        self.given.clone().or_else(|| descriptor::descriptor_of(&self.types()))
    }

    /// Reasons why messages of the writer's schema cannot be read with this one, with their places; empty if they can.
    pub fn cannot_read(&self, writer: &Self) -> Vec<String> {
        differences(writer.types(), self.types())
    }

    fn types(&self) -> Types<'_> {
        Types::new(&self.own, &self.imported)
    }

    /// Refuses names that are declared twice in one place, and types that are nowhere declared.
    fn check_names(&self) -> Result<(), String> {
        let types = self.types();
        let is_unchecked = |name: &String| UNCHECKED.iter().any(|begin| name.starts_with(begin));
        let is_checked = !types.own().imports.iter().any(|name| is_unchecked(name) && text::well_known(name).is_none());
        let place =
            if types.own().package.is_empty() { "the file".to_owned() } else { format!("'{}'", types.own().package) };
        refuse_twice(&place, &[], &types.own().messages, &types.own().enums)?;
        for (scope, declared) in types.of_own() {
            let Declared::Message(message) = declared else { continue };
            refuse_twice(&format!("'{scope}'"), &message.fields, &message.messages, &message.enums)?;
            for field in message.fields.iter().filter(|_| is_checked) {
                let (name, of) = (&field.name, value_of(message, field));
                if scalar(of.kind).is_none() && types.find(of, scope).is_none() {
                    let kind = &of.type_name;
                    return Err(format!("the field '{name}' of '{scope}' has the type '{kind}', which is not there"));
                }
            }
        }
        Ok(())
    }
}

fn add_imports<'f>(
    file: &'f File,
    imported: &'f BTreeMap<&str, File>,
    seen: &mut BTreeSet<&'f str>,
    found: &mut Vec<File>,
) -> Result<(), String> {
    for name in &file.imports {
        if !seen.insert(name) {
            continue;
        }
        if let Some(file) = imported.get(&**name) {
            add_imports(file, imported, seen, found)?;
            found.push(file.clone());
        } else if let Some(text) = text::well_known(name) {
            found.push(text::parse(name, &text)?);
        } else if !UNCHECKED.iter().any(|begin| name.starts_with(begin)) {
            return Err(format!("it imports '{name}', which is none of its references"));
        }
    }
    Ok(())
}

/// Refuses what compilers refuse in a file by itself.
fn check(file: &File) -> Result<(), String> {
    file.enums.iter().try_for_each(|each| check_enum(file, each))?;
    file.messages.iter().try_for_each(|each| check_message(file, each))
}

fn check_message(file: &File, message: &Message) -> Result<(), String> {
    let mut numbers = BTreeMap::new();
    for (at, field) in message.fields.iter().enumerate() {
        let (name, of, number) = (&field.name, &message.name, field.number);
        if !(1..1 << 29).contains(&number) || (19_000..20_000).contains(&number) {
            return Err(format!("the field '{name}' of '{of}' has the number {number}"));
        }
        if let Some(other) = numbers.insert(number, name) {
            return Err(format!("the fields '{other}' and '{name}' of '{of}' have one number, {number}"));
        }
        if message.fields[..at].iter().any(|other| other.name == *name) {
            return Err(format!("'{of}' has two fields '{name}'"));
        }
        if let Some((key, _)) = entry_of(message, field)
            && (scalar(key.kind).is_none() || matches!(&*key.type_name, "double" | "float" | "bytes"))
        {
            return Err(format!("'{}' is no type of a map's keys", key.type_name));
        }
    }
    message.enums.iter().try_for_each(|each| check_enum(file, each))?;
    message.messages.iter().filter(|each| !each.is_map_entry).try_for_each(|each| check_message(file, each))
}

fn check_enum(file: &File, read: &Enum) -> Result<(), String> {
    match read.values.first() {
        None => Err(format!("the enum '{}' has no value", read.name)),
        Some((_, first)) if *first != 0 && file.syntax == "proto3" => {
            Err(format!("the first value of the enum '{}' is not 0", read.name))
        }
        _ => Ok(()),
    }
}

fn refuse_twice(place: &str, fields: &[Field], messages: &[Message], enums: &[Enum]) -> Result<(), String> {
    let mut known = BTreeSet::new();
    let fields = fields.iter().map(|field| &field.name);
    let mut names = fields.chain(messages.iter().map(|each| &each.name)).chain(enums.iter().map(|each| &each.name));
    match names.find(|name| !known.insert(*name)) {
        None => Ok(()),
        Some(twice) => Err(format!("'{twice}' is declared twice in {place}")),
    }
}
