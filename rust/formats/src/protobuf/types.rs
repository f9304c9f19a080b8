//! The types of a file and of all that it imports, as far as a registry compares them.

use std::collections::BTreeMap;

use super::definition::{Enum, Field, File, Message};
use super::schema::find;
use super::text::MAP_ENTRY;
use crate::error::below;

/// The fields of key and value, if this one is a map.
pub(super) fn entry_of<'f>(message: &'f Message, field: &Field) -> Option<(&'f Field, &'f Field)> {
    field.type_name.strip_suffix(MAP_ENTRY)?;
    match &*message.messages.iter().find(|entry| entry.name == field.type_name)?.fields {
        [key, value] => Some((key, value)),
        _ => None,
    }
}

/// Field that has the type: for a map, that of its values.
pub(super) fn value_of<'f>(message: &'f Message, field: &'f Field) -> &'f Field {
    entry_of(message, field).map_or(field, |(_, value)| value)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Declared<'f> {
    Message(&'f Message),
    Enum,
}

/// The types of a file and of all that it imports, by their full names.
pub(super) struct Types<'f> {
    own: &'f File,
    declared: BTreeMap<String, (Declared<'f>, &'f File)>,
}

impl<'f> Types<'f> {
    pub(super) fn new(own: &'f File, imported: &'f [File]) -> Self {
        let mut types = Self { own, declared: BTreeMap::new() };
        for file in imported.iter().chain([own]) {
            types.declare(&file.package, &file.messages, &file.enums, file);
        }
        types
    }

    pub(super) fn own(&self) -> &'f File {
        self.own
    }

    fn declare(&mut self, scope: &str, messages: &'f [Message], enums: &'f [Enum], file: &'f File) {
        for each in enums {
            self.declared.insert(below(scope, &each.name), (Declared::Enum, file));
        }
        for message in messages.iter().filter(|message| !message.is_map_entry) {
            let name = below(scope, &message.name);
            self.declare(&name, &message.messages, &message.enums, file);
            self.declared.insert(name, (Declared::Message(message), file));
        }
    }

    /// The types of the file itself.
    pub(super) fn of_own(&self) -> impl Iterator<Item = (&String, Declared<'f>)> {
        let of_own = self.declared.iter().filter(|(_, (_, file))| std::ptr::eq(*file, self.own));
        of_own.map(|(name, (declared, _))| (name, *declared))
    }

    /// The type of a field of a message with this full name, by its own full name, and the file that declares it.
    pub(super) fn find(&self, field: &Field, scope: &str) -> Option<(&str, Declared<'f>, &'f File)> {
        find(&self.declared, &field.type_name, scope).map(|(name, (declared, file))| (&**name, *declared, *file))
    }
}
