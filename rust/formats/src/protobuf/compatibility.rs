//! Comparison of two schemas, by the rules of Confluent's registry.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::{Field, File, Label, Message};
use super::resolve::Form;
use super::schema::scalar;
use super::types::{Declared, Types, entry_of, value_of};
use crate::error::below;

/// Limit on the nesting of compared messages: those of imported files may be without end.
const MAX_DEPTH: usize = 200;

/// Reasons why messages of the original cannot be read with the update, with their places.
pub(super) fn differences(original: Types<'_>, update: Types<'_>) -> Vec<String> {
    let mut found = Comparison { original, update, seen: BTreeSet::new(), depth: 0, found: Vec::new() };
    let (old, new) = (found.original.own(), found.update.own());
    if old.package != new.package {
        found.add("PACKAGE_CHANGED", "#/", &format!("the package '{}' has become '{}'", old.package, new.package));
    }
    found.messages((&old.messages, &old.package), (&new.messages, &new.package), "#/");
    found.found
}

struct Comparison<'f> {
    original: Types<'f>,
    update: Types<'f>,
    /// The addresses of messages that were compared, which may be in themselves.
    seen: BTreeSet<(usize, usize)>,
    depth: usize,
    found: Vec<String>,
}

/// A message with its full name.
type Scoped<'f, 's> = (&'f Message, &'s str);

impl<'f> Comparison<'f> {
    fn add(&mut self, kind: &str, path: &str, text: &str) {
        self.found.push(format!("{{errorType:'{kind}', description:'{text}, at path {path}'}}"));
    }

    fn messages(&mut self, (old, was): (&'f [Message], &str), (new, now): (&'f [Message], &str), path: &str) {
        for message in old.iter().filter(|message| !message.is_map_entry) {
            let (name, path) = (&message.name, format!("{path}{}/", message.name));
            match new.iter().find(|other| other.name == *name) {
                None => self.add("MESSAGE_REMOVED", &path, &format!("the message '{name}' is gone")),
                Some(other) => self.message((message, &below(was, name)), (other, &below(now, name)), &path),
            }
        }
    }

    fn message(&mut self, (old, was): Scoped<'f, '_>, (new, now): Scoped<'f, '_>, path: &str) {
        let address = |message| std::ptr::from_ref::<Message>(message) as usize;
        if !self.seen.insert((address(old), address(new))) {
            return;
        }
        if self.depth == MAX_DEPTH {
            return self.add("FIELD_NAMED_TYPE_CHANGED", path, "messages are nested too deep to be compared");
        }
        self.depth += 1;
        self.oneofs(old, new, path);
        for field in &old.fields {
            let (name, number, at) = (&field.name, field.number, format!("{path}{}", field.number));
            if let Some(other) = new.fields.iter().find(|other| other.number == number) {
                self.field((old, was, field), (new, now, other), &at);
            } else if field.label == Label::Required {
                self.add("REQUIRED_FIELD_REMOVED", &at, &format!("the required field '{name}' is gone"));
            } else if let Some(oneof) = oneof_of(old, field)
                && new.fields.iter().any(|other| oneof_of(new, other) == Some(oneof))
            {
                let text = format!("the field '{name}' of the oneof '{oneof}' is gone");
                self.add("ONEOF_FIELD_REMOVED", &format!("{path}{oneof}/{number}"), &text);
            }
        }
        for field in new.fields.iter().filter(|field| field.label == Label::Required) {
            if old.fields.iter().all(|other| other.number != field.number) {
                let text = format!("the field '{}' is required, and missing in what was written", field.name);
                self.add("REQUIRED_FIELD_ADDED", &format!("{path}{}", field.number), &text);
            }
        }
        self.messages((&old.messages, was), (&new.messages, now), path);
        self.depth -= 1;
    }

    /// Fields that have moved into a oneof, of which only one can be set.
    fn oneofs(&mut self, old: &Message, new: &Message, path: &str) {
        let mut within: BTreeMap<&str, Vec<&Field>> = BTreeMap::new();
        for field in &new.fields {
            if let Some(oneof) = oneof_of(new, field) {
                within.entry(oneof).or_default().extend(old.fields.iter().find(|other| other.number == field.number));
            }
        }
        for (oneof, fields) in within {
            let moved: Vec<&str> =
                fields.iter().filter(|field| field.oneof.is_none()).map(|field| &*field.name).collect();
            let path = format!("{path}{oneof}");
            if moved.len() > 1 {
                let text =
                    format!("{} have moved into the oneof '{oneof}': of these only one can be set", moved.join(", "));
                self.add("MULTIPLE_FIELDS_MOVED_TO_ONEOF", &path, &text);
            } else if let [moved] = moved[..]
                && fields.len() > 1
            {
                let text = format!("'{moved}' has moved into the oneof '{oneof}', which had fields before");
                self.add("FIELD_MOVED_TO_EXISTING_ONEOF", &path, &text);
            }
        }
    }

    fn field(
        &mut self,
        (of_old, was, old): (&'f Message, &str, &'f Field),
        (of_new, now, new): (&'f Message, &str, &'f Field),
        path: &str,
    ) {
        let entries = (entry_of(of_old, old), entry_of(of_new, new));
        if entries.0.is_some() != entries.1.is_some() {
            let text = format!("{} has become {}", described(of_old, old), described(of_new, new));
            return self.add("FIELD_KIND_CHANGED", path, &text);
        }
        if let (Some((old, _)), Some((new, _))) = entries
            && form(old, None) != form(new, None)
        {
            let text = format!("keys of type {} have become {}", old.type_name, new.type_name);
            self.add("FIELD_SCALAR_KIND_CHANGED", path, &text);
        }
        let (old, new) = (value_of(of_old, old), value_of(of_new, new));
        let before = self.original.find(old, was).filter(|_| scalar(old.kind).is_none());
        let after = self.update.find(new, now).filter(|_| scalar(new.kind).is_none());
        let forms = [form(old, before.map(|found| found.1)), form(new, after.map(|found| found.1))];
        if forms[0] != forms[1] {
            let is_message = forms.iter().any(|form| matches!(form, Form::Message | Form::Group));
            let kind = if is_message { "FIELD_KIND_CHANGED" } else { "FIELD_SCALAR_KIND_CHANGED" };
            let text = format!("{} has become {}, which is written in another way", old.type_name, new.type_name);
            return self.add(kind, path, &text);
        }
        let (Some((was, Declared::Message(old), old_file)), Some((now, Declared::Message(new), new_file))) =
            (before, after)
        else {
            return;
        };
        let (was, now) = (was.to_owned(), now.to_owned());
        if local(&was, old_file) != local(&now, new_file) {
            let text = format!("the message {was} has become {now}");
            self.add("FIELD_NAMED_TYPE_CHANGED", path, &text);
        } else if !(std::ptr::eq(old_file, self.original.own()) && std::ptr::eq(new_file, self.update.own())) {
            // Messages of the files themselves are compared there.
            let count = self.found.len();
            self.message((old, &was), (new, &now), &format!("{path}/"));
            if self.found.len() > count {
                self.add("FIELD_NAMED_TYPE_CHANGED", path, &format!("the message {was} cannot be read any more"));
            }
        }
    }
}

/// Encoding of a field. An unknown type is taken for a message.
fn form(field: &Field, declared: Option<Declared<'_>>) -> Form {
    match (scalar(field.kind), declared) {
        (Some(kind), _) => Form::of(kind),
        _ if field.kind == 10 => Form::Group,
        (None, Some(Declared::Enum)) => Form::Varint,
        (None, _) => Form::Message,
    }
}

fn oneof_of<'f>(message: &'f Message, field: &Field) -> Option<&'f str> {
    message.oneofs.get(field.oneof? as usize).map(String::as_str)
}

fn described(message: &Message, field: &Field) -> String {
    match entry_of(message, field) {
        Some((key, value)) => format!("map<{}, {}>", key.type_name, value.type_name),
        None => field.type_name.clone(),
    }
}

fn local<'n>(name: &'n str, file: &File) -> &'n str {
    let within = name.strip_prefix(&file.package).and_then(|rest| rest.strip_prefix('.'));
    within.unwrap_or(name)
}
