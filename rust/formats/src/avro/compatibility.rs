//! Comparison of a reader's schema with a writer's, by the rules of Avro's `SchemaCompatibility`.

use std::collections::BTreeMap;

use super::schema::{AvroSchema, Field, Kind, Name, TypeId};

/// Limit on the nesting of types, since comparing recurses as deep.
const MAX_DEPTH: usize = 200;

impl AvroSchema {
    /// Reasons why values of the writer's schema cannot be read with this one, with their places; empty if they can.
    pub fn cannot_read(&self, writer: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut comparison = Comparison { reader: self, writer, seen: BTreeMap::new(), depth: 0 };
        comparison.types(self.root, writer.root, "", &mut found);
        found
    }
}

struct Comparison<'s> {
    reader: &'s AvroSchema,
    writer: &'s AvroSchema,
    /// Results by reader and writer. Types that are being compared count as readable, since types may recur.
    seen: BTreeMap<(TypeId, TypeId), bool>,
    depth: usize,
}

impl Comparison<'_> {
    fn types(&mut self, reader: TypeId, writer: TypeId, path: &str, found: &mut Vec<String>) {
        let (of_reader, of_writer) = (self.reader.kind(reader), self.writer.kind(writer));
        if self.depth == MAX_DEPTH {
            return found.push(told("TYPE_MISMATCH", path, "types are nested too deep", called(of_writer)));
        }
        if let Some(is_readable) = self.seen.insert((reader, writer), true) {
            self.seen.insert((reader, writer), is_readable);
            if !is_readable {
                let (reader, writer) = (called(of_reader), called(of_writer));
                found.push(told("TYPE_MISMATCH", path, &format!("{reader} cannot read {writer}"), writer));
            }
            return;
        }
        let before = found.len();
        self.depth += 1;
        if of_reader.text() == of_writer.text() {
            self.kinds(of_reader, of_writer, path, found);
        } else {
            self.two_kinds((reader, of_reader), (writer, of_writer), path, found);
        }
        self.depth -= 1;
        self.seen.insert((reader, writer), found.len() == before);
    }

    fn kinds(&mut self, reader: &Kind, writer: &Kind, path: &str, found: &mut Vec<String>) {
        if let (Some(name), Some(written)) = (reader.name(), writer.name()) {
            found.extend(names(name, written, path));
        }
        match (reader, writer) {
            (Kind::Array(items), Kind::Array(written)) => self.types(*items, *written, &format!("{path}/items"), found),
            (Kind::Map(values), Kind::Map(written)) => self.types(*values, *written, &format!("{path}/values"), found),
            (Kind::Union(branches), Kind::Union(written)) => {
                for (index, branch) in written.iter().enumerate() {
                    if !self.is_any(branches, *branch) {
                        found.push(self.lacks(branches, *branch, &format!("{path}/{index}")));
                    }
                }
            }
            (Kind::Fixed { name, size }, Kind::Fixed { size: written, .. }) if size != written => {
                let text = format!("the new size of {} is {size}, where {written} was written", name.full);
                found.push(told("FIXED_SIZE_MISMATCH", &format!("{path}/size"), &text, &format!("{size}, {written}")));
            }
            (Kind::Enum { name, symbols, default: None }, Kind::Enum { symbols: written, .. }) => {
                let missing: Vec<&str> =
                    written.iter().filter(|symbol| !symbols.contains(symbol)).map(|symbol| &**symbol).collect();
                if !missing.is_empty() {
                    let text =
                        format!("the enum {} lacks symbols that may have been written, and has no default", name.full);
                    found.push(told("MISSING_ENUM_SYMBOLS", &format!("{path}/symbols"), &text, &missing.join(", ")));
                }
            }
            (Kind::Record { fields, .. }, Kind::Record { .. }) => {
                for (index, field) in fields.iter().enumerate() {
                    self.field(field, writer, &format!("{path}/fields/{index}"), found);
                }
            }
            _ => {}
        }
    }

    fn two_kinds(
        &mut self,
        (reader, of_reader): (TypeId, &Kind),
        (writer, of_writer): (TypeId, &Kind),
        path: &str,
        found: &mut Vec<String>,
    ) {
        match (of_reader, of_writer) {
            (_, Kind::Union(branches)) => branches.iter().for_each(|branch| self.types(reader, *branch, path, found)),
            (Kind::Union(branches), _) if self.is_any(branches, writer) => {}
            (Kind::Union(branches), _) => found.push(self.lacks(branches, writer, path)),
            (Kind::Long | Kind::Float | Kind::Double, Kind::Int)
            | (Kind::Float | Kind::Double, Kind::Long)
            | (Kind::Double, Kind::Float)
            | (Kind::Bytes, Kind::String)
            | (Kind::String, Kind::Bytes) => {}
            _ => {
                let text = format!("{} is expected, where {} was written", called(of_reader), called(of_writer));
                let more = format!("reader type: {}, writer type: {}", of_reader.text(), of_writer.text());
                found.push(told("TYPE_MISMATCH", path, &text, &more));
            }
        }
    }

    fn is_any(&mut self, branches: &[TypeId], written: TypeId) -> bool {
        branches.iter().any(|branch| {
            let mut found = Vec::new();
            self.types(*branch, written, "", &mut found);
            found.is_empty()
        })
    }

    fn lacks(&self, branches: &[TypeId], written: TypeId, path: &str) -> String {
        let names: Vec<_> =
            branches.iter().map(|branch| format!("\"{}\"", called(self.reader.kind(*branch)))).collect();
        let (names, written) = (names.join(", "), self.writer.kind(written));
        let text = format!("the union [{names}] has no branch for {}, which may have been written", called(written));
        let more = format!("reader union lacking writer type: {}", written.text().to_uppercase());
        told("MISSING_UNION_BRANCH", path, &text, &more)
    }

    fn field(&mut self, field: &Field, record: &Kind, path: &str, found: &mut Vec<String>) {
        let (Kind::Record { fields, .. }, name) = (record, &field.name) else { return };
        let is_called = |written: &&Field| written.name == *name || field.aliases.contains(&written.name);
        let written: Vec<&Field> = fields.iter().filter(is_called).collect();
        match written[..] {
            [one] => self.types(field.type_id, one.type_id, &format!("{path}/type"), found),
            [] if field.default.is_some() => {}
            [] => match self.reader.kind(field.type_id) {
                // Java compares the enum with the record then.
                of_field @ Kind::Enum { default: Some(_), .. } => {
                    let text = format!("{} is expected, where {} was written", called(of_field), called(record));
                    found.push(told(
                        "TYPE_MISMATCH",
                        &format!("{path}/type"),
                        &text,
                        "reader type: enum, writer type: record",
                    ));
                }
                _ => {
                    let text = format!("the field '{name}' has no default, and may be missing in what was written");
                    found.push(told("READER_FIELD_MISSING_DEFAULT_VALUE", path, &text, name));
                }
            },
            _ => {
                let text = format!("several fields that were written are '{name}', by its name and aliases");
                let names: Vec<&str> = written.iter().map(|field| &*field.name).collect();
                found.push(told("NAME_MISMATCH", &format!("{path}/aliases"), &text, &names.join(", ")));
            }
        }
    }
}

/// Error if the names differ: namespaces count only where an alias is meant.
fn names(reader: &Name, writer: &Name, path: &str) -> Option<String> {
    if reader.short() == writer.short() || reader.aliases.contains(&writer.full) {
        return None;
    }
    let text = format!("{} is expected, where {} was written", reader.full, writer.full);
    Some(told("NAME_MISMATCH", &format!("{path}/name"), &text, &format!("expected: {}", writer.full)))
}

fn told(kind: &str, path: &str, text: &str, more: &str) -> String {
    let path = if path.is_empty() { "/" } else { path };
    format!("{{errorType:'{kind}', description:'{text}, at path {path}', additionalInfo:'{more}'}}")
}

fn called(kind: &Kind) -> &str {
    kind.name().map_or_else(|| kind.text(), |name| &name.full)
}
