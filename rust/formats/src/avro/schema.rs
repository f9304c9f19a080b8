//! Avro schemas: JSON text becomes a list of types that refer to each other by index, so that a type may contain
//! itself.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::defaults::is_default;
use super::error::{BadSchema, bad};
use crate::error::below;

const MAX_TYPES: usize = 10_000;

/// Index of a type in its schema.
pub(crate) type TypeId = usize;

/// An Avro schema.
#[derive(Debug, Clone)]
pub struct AvroSchema {
    pub(crate) types: Vec<Type>,
    pub(crate) root: TypeId,
}

#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    pub(crate) logical: Option<Logical>,
    /// True if values of this type take no bytes.
    pub(crate) is_empty: bool,
    /// Properties that the specification does not name, as the registry compares them; otherwise none are kept.
    props: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Array(TypeId),
    Map(TypeId),
    Union(Vec<TypeId>),
    Record { name: Name, fields: Vec<Field> },
    Enum { name: Name, symbols: Vec<Box<str>>, default: Option<Box<str>> },
    Fixed { name: Name, size: usize },
}

/// Meaning of a type's values. One that does not fit its type is ignored, as the specification demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    Decimal {
        precision: usize,
        scale: usize,
    },
    Date,
    /// Time of day, in this many units per second.
    Time(i64),
    /// Timestamp in UTC, in this many units per second.
    Timestamp(i64),
    /// Timestamp without a zone, in this many units per second.
    LocalTimestamp(i64),
}

/// Name of a record, enum or fixed.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) full: Box<str>,
    pub(crate) aliases: Vec<Box<str>>,
}

impl Name {
    /// Name without the namespace.
    pub(crate) fn short(&self) -> &str {
        short(&self.full)
    }

    fn namespace(&self) -> &str {
        self.full.rsplit_once('.').map_or("", |(namespace, _)| namespace)
    }

    /// Returns true if the writer's name is this one or one of its aliases. Namespaces are not compared: those of one
    /// type differ across teams.
    pub(crate) fn is_of(&self, writers: &Self) -> bool {
        self.short() == writers.short() || self.aliases.iter().any(|alias| short(alias) == writers.short())
    }
}

fn short(full: &str) -> &str {
    full.rsplit_once('.').map_or(full, |(_, short)| short)
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) aliases: Vec<Box<str>>,
    pub(crate) default: Option<Value>,
    pub(crate) type_id: TypeId,
    /// As those of types, and the order.
    props: Map<String, Value>,
}

fn unit_text(units: i64) -> &'static str {
    match units {
        1_000 => "millis",
        1_000_000 => "micros",
        _ => "nanos",
    }
}

impl AvroSchema {
    /// Parses the JSON text of a schema that refers to no types but its own and the primitive ones.
    ///
    /// # Errors
    /// Text that is no JSON, or no schema: the place and the reason.
    pub fn parse(text: &str) -> Result<Self, BadSchema> {
        Self::parse_beside(text, &[])
    }

    /// Same as [`Self::parse`], for a text that refers to types of other schemas. Each of these may refer to those
    /// before it.
    ///
    /// # Errors
    /// Same as [`Self::parse`].
    pub fn parse_beside(text: &str, others: &[String]) -> Result<Self, BadSchema> {
        let mut parser = Parser::default();
        for other in others {
            parser.schema(&json_of(other)?, "", "")?;
        }
        let root = parser.schema(&json_of(text)?, "", "")?;
        let mut schema = Self { types: parser.types, root };
        schema.find_empty();
        Ok(schema)
    }

    /// As [`Self::parse_beside`], but what is no schema by the specification is refused, as registries do: readers need
    /// not be as strict. The others are given with their names.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_strictly(text: &str, others: &[(String, String)]) -> Result<Self, BadSchema> {
        let mut parser = Parser { is_strict: true, ..Parser::default() };
        for (name, other) in others {
            let referred = json_of(other).and_then(|json| parser.schema(&json, "", ""));
            referred.map_err(|error| bad("", format!("the reference '{name}': {error}")))?;
        }
        if text.trim().is_empty() {
            return Err(bad("", "the schema is empty".to_owned()));
        }
        let root = parser.schema(&json_of(text)?, "", "")?;
        let mut schema = Self { types: parser.types, root };
        schema.find_empty();
        for each in &schema.types {
            let Kind::Record { name, fields } = &each.kind else { continue };
            let is_unfit =
                |field: &&Field| field.default.as_ref().is_some_and(|json| !is_default(&schema, field.type_id, json));
            if let Some(field) = fields.iter().find(is_unfit) {
                let reason =
                    format!("the field '{}' of '{}' has a default that is none of its type", field.name, name.full);
                return Err(bad("", reason));
            }
        }
        Ok(schema)
    }

    /// The full name of the record that it is the schema of, if it is one.
    pub fn record_name(&self) -> Option<&str> {
        match self.kind(self.root) {
            Kind::Record { name, .. } => Some(&name.full),
            _ => None,
        }
    }

    /// Full name of the schema's type, if it has one, as records, enums and fixed do.
    pub fn name(&self) -> Option<&str> {
        self.kind(self.root).name().map(|name| &*name.full)
    }

    pub(crate) fn kind(&self, id: TypeId) -> &Kind {
        &self.types[id].kind
    }

    /// Name of the type, for errors.
    pub(crate) fn text(&self, id: TypeId) -> String {
        let each = &self.types[id];
        let kind = each.kind.text();
        match (&each.kind, each.logical) {
            (_, Some(Logical::Decimal { precision, scale })) => format!("decimal({precision}, {scale})"),
            (_, Some(Logical::Date)) => "date".to_owned(),
            (_, Some(Logical::Time(units))) => format!("time-{}", unit_text(units)),
            (_, Some(Logical::Timestamp(units))) => format!("timestamp-{}", unit_text(units)),
            (_, Some(Logical::LocalTimestamp(units))) => format!("local-timestamp-{}", unit_text(units)),
            (Kind::Fixed { size, .. }, None) => format!("fixed({size})"),
            (named, None) => named.name().map_or_else(|| kind.to_owned(), |name| format!("{kind} {}", name.full)),
        }
    }

    /// Marks the types whose values take no bytes: nulls, fixed of size 0, and records of nothing else. Repeated until
    /// nothing changes, since a record may come before the types of its fields.
    fn find_empty(&mut self) {
        loop {
            let is_empty = |each: &Type| match &each.kind {
                Kind::Null | Kind::Fixed { size: 0, .. } => true,
                Kind::Record { fields, .. } => fields.iter().all(|field| self.types[field.type_id].is_empty),
                _ => false,
            };
            let found: Vec<_> =
                (0..self.types.len()).filter(|id| !self.types[*id].is_empty && is_empty(&self.types[*id])).collect();
            if found.is_empty() {
                return;
            }
            found.into_iter().for_each(|id| self.types[id].is_empty = true);
        }
    }
}

fn json_of(text: &str) -> Result<Value, BadSchema> {
    match serde_json::from_str(text) {
        Ok(json) => Ok(json),
        // A primitive type may be given by its name without quotes.
        Err(_) if primitive(text.trim()).is_some() => Ok(Value::String(text.trim().to_owned())),
        Err(error) if error.to_string().starts_with("recursion limit") => {
            Err(bad("", "is nested too deep: JSON is read to a depth of 127, some 40 records".to_owned()))
        }
        Err(error) => Err(bad("", format!("is not JSON: {error}"))),
    }
}

impl Kind {
    /// Name of the kind, for errors.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
            Self::Record { .. } => "record",
            Self::Enum { .. } => "enum",
            Self::Fixed { .. } => "fixed",
        }
    }

    pub(crate) fn name(&self) -> Option<&Name> {
        match self {
            Self::Record { name, .. } | Self::Enum { name, .. } | Self::Fixed { name, .. } => Some(name),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Parser {
    types: Vec<Type>,
    named: HashMap<Box<str>, TypeId>,
    /// Records whose fields are not complete yet.
    open: Vec<TypeId>,
    /// Strictness of registries: all is refused that the specification does not allow.
    is_strict: bool,
}

impl Parser {
    fn schema(&mut self, json: &Value, namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        match json {
            Value::String(name) => self.by_name(name, namespace, path),
            Value::Array(branches) => self.union(branches, namespace, path),
            Value::Object(object) => self.object(object, namespace, path),
            other => Err(bad(path, format!("{other} is no type; expected a name, an object or an array"))),
        }
    }

    fn by_name(&mut self, name: &str, namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        if let Some(kind) = primitive(name) {
            return self.add(kind, None, path);
        }
        let full = full_name(name, namespace);
        let known = self.named.get(&full).or_else(|| self.named.get(name).filter(|_| !self.is_strict));
        known.copied().ok_or_else(|| {
            let reason = if self.is_strict {
                format!("the type '{full}' is not defined")
            } else {
                format!("no type {name:?} is defined before this; references to other schemas are not looked up")
            };
            bad(path, reason)
        })
    }

    fn union(&mut self, branches: &[Value], namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        if branches.is_empty() && !self.is_strict {
            return Err(bad(path, "a union of nothing".to_owned()));
        }
        let id = self.add(Kind::Union(Vec::new()), None, path)?;
        let mut ids = Vec::new();
        let mut kinds: Vec<Box<str>> = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let branch = self.schema(branch, namespace, &path)?;
            let kind = &self.types[branch].kind;
            if matches!(kind, Kind::Union(_)) {
                return Err(bad(&path, "a union directly in a union".to_owned()));
            }
            let called: Box<str> = kind.name().map_or_else(|| kind.text().into(), |name| name.full.clone());
            if kinds.contains(&called) {
                return Err(bad(&path, format!("the union has {called} twice")));
            }
            kinds.push(called);
            ids.push(branch);
        }
        self.types[id].kind = Kind::Union(ids);
        Ok(id)
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            // A field's type may be wrapped in one more object with a `type`, which some libraries write.
            Some(nested @ (Value::Object(_) | Value::Array(_))) => return self.schema(nested, namespace, path),
            Some(other) => return Err(bad(path, format!("its type is {other}, which is none"))),
            None => return Err(bad(path, "it has no type".to_owned())),
        };
        match kind {
            "record" | "error" => self.record(object, namespace, path),
            "enum" => self.enumeration(object, namespace, path),
            "fixed" => {
                let name = self.name(object, namespace, path)?;
                let size = object.get("size").and_then(Value::as_u64).and_then(|size| i32::try_from(size).ok());
                let Some(size) = size else { return Err(bad(path, "a fixed needs a size".to_owned())) };
                let kind = Kind::Fixed { name: name.clone(), size: size as usize };
                let logical = logical(object, &kind);
                self.add_named(object, kind, logical, path)
            }
            "array" | "map" => {
                let (key, mark) = if kind == "array" { ("items", "[]") } else { ("values", "{}") };
                let Some(json) = object.get(key) else { return Err(bad(path, format!("an {kind} needs {key}"))) };
                let child = self.schema(json, namespace, &format!("{path}{mark}"))?;
                let id = self.add(if kind == "array" { Kind::Array(child) } else { Kind::Map(child) }, None, path)?;
                self.keep_props(id, object);
                Ok(id)
            }
            name => match primitive(name) {
                Some(kind) => {
                    let logical = logical(object, &kind);
                    let id = self.add(kind, logical, path)?;
                    self.keep_props(id, object);
                    Ok(id)
                }
                None => self.by_name(name, namespace, path),
            },
        }
    }

    fn record(&mut self, object: &Map<String, Value>, namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        let name = self.name(object, namespace, path)?;
        let Some(Value::Array(listed)) = object.get("fields") else {
            return Err(bad(path, format!("the record {} has no list of fields", name.full)));
        };
        let within = name.namespace().to_owned();
        // Registered before its fields, since they may refer to it.
        let id = self.add(Kind::Record { name: name.clone(), fields: Vec::new() }, None, path)?;
        self.keep_props(id, object);
        let before = self.define(&name, id, path)?;
        self.open.push(id);
        let mut fields: Vec<Field> = Vec::new();
        for (index, json) in listed.iter().enumerate() {
            let named = json.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let Some(field_name) = named else { return Err(bad(path, format!("field {index} has no name"))) };
            self.check_name(field_name, path)?;
            let below = below(path, field_name);
            if fields.iter().any(|field| *field.name == *field_name) {
                return Err(bad(&below, "two fields have this name".to_owned()));
            }
            let Some(type_json) = json.get("type") else { return Err(bad(&below, "it has no type".to_owned())) };
            // A field may have the keys of an array or map itself, without an object for the type. A logical type
            // beside the type belongs to the field, and does not apply to its values, as in Java.
            let type_id = match (type_json, json.as_object()) {
                (Value::String(kind), Some(object)) if matches!(kind.as_str(), "array" | "map") && !self.is_strict => {
                    self.object(object, &within, &below)?
                }
                _ => self.schema(type_json, &within, &below)?,
            };
            let aliases = texts(json.get("aliases"), &below, "aliases")?;
            let default = json.get("default").cloned();
            let props = self.field_props(json, &below)?;
            fields.push(Field { name: field_name.into(), aliases, default, type_id, props });
        }
        self.open.pop();
        self.types[id].kind = Kind::Record { name, fields };
        self.alike(before, id, path)
    }

    fn enumeration(&mut self, object: &Map<String, Value>, namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        let name = self.name(object, namespace, path)?;
        let symbols = texts(object.get("symbols"), path, "symbols")?;
        if self.is_strict {
            if !object.get("symbols").is_some_and(Value::is_array) {
                return Err(bad(path, format!("the enum {} has no list of symbols", name.full)));
            }
            symbols.iter().try_for_each(|symbol| self.check_name(symbol, path))?;
            let is_known = |at: &usize| symbols[..*at].contains(&symbols[*at]);
            if let Some(at) = (0..symbols.len()).find(is_known) {
                return Err(bad(path, format!("the enum {} has '{}' twice", name.full, symbols[at])));
            }
        } else if symbols.is_empty() {
            return Err(bad(path, format!("the enum {} has no symbols", name.full)));
        }
        let default: Option<Box<str>> = self.optional_text(object, "default", path)?.map(Into::into);
        if let Some(default) = default.as_ref().filter(|default| !symbols.contains(default)) {
            return Err(bad(path, format!("the enum's default {default:?} is none of its symbols")));
        }
        self.add_named(object, Kind::Enum { name, symbols, default }, None, path)
    }

    fn name(&self, object: &Map<String, Value>, namespace: &str, path: &str) -> Result<Name, BadSchema> {
        let Some(name) = object.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return Err(bad(path, "a record, enum or fixed needs a name".to_owned()));
        };
        let namespace = self.optional_text(object, "namespace", path)?.unwrap_or(namespace);
        let full = full_name(name, namespace);
        self.check_name(short(&full), path)?;
        let within = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
        let aliases = texts(object.get("aliases"), path, "aliases")?;
        let aliases = aliases.iter().map(|alias| full_name(alias, &within)).collect();
        Ok(Name { full, aliases })
    }

    fn add_named(
        &mut self,
        object: &Map<String, Value>,
        kind: Kind,
        logical: Option<Logical>,
        path: &str,
    ) -> Result<TypeId, BadSchema> {
        let name = kind.name().cloned();
        let id = self.add(kind, logical, path)?;
        self.keep_props(id, object);
        let before = name.map_or(Ok(None), |name| self.define(&name, id, path))?;
        self.alike(before, id, path)
    }

    /// Keeps the properties of a type that the specification does not name.
    fn keep_props(&mut self, id: TypeId, object: &Map<String, Value>) {
        let kind = &self.types[id].kind;
        let own = match kind {
            Kind::Array(_) => "items",
            Kind::Map(_) => "values",
            Kind::Record { .. } => "fields",
            Kind::Fixed { .. } => "size",
            _ => "symbols",
        };
        let is_named = |key: &str| match kind.name() {
            Some(_) if matches!(key, "name" | "namespace" | "doc" | "aliases") => true,
            Some(_) if key == "default" => matches!(kind, Kind::Enum { .. }),
            _ => key == "type" || key == own,
        };
        if self.is_strict {
            let props = object.iter().filter(|(key, _)| !is_named(key));
            self.types[id].props = props.map(|(key, value)| (key.clone(), value.clone())).collect();
        }
    }

    /// Properties of a field that the specification does not name, and the order in one form.
    fn field_props(&self, json: &Value, path: &str) -> Result<Map<String, Value>, BadSchema> {
        let Some(object) = json.as_object().filter(|_| self.is_strict) else { return Ok(Map::new()) };
        let mut props = object.clone();
        props.retain(|key, _| !matches!(&**key, "name" | "type" | "doc" | "default" | "aliases"));
        let order = object.get("order").map_or("ascending", |order| order.as_str().unwrap_or_default()).to_lowercase();
        if !matches!(&*order, "ascending" | "descending" | "ignore") {
            let given = &object["order"];
            return Err(bad(path, format!("it has the order {given}; there are ascending, descending and ignore")));
        }
        props.insert("order".to_owned(), order.into());
        Ok(props)
    }

    fn optional_text<'o>(
        &self,
        object: &'o Map<String, Value>,
        key: &str,
        path: &str,
    ) -> Result<Option<&'o str>, BadSchema> {
        match object.get(key) {
            Some(Value::String(text)) => Ok(Some(text)),
            None | Some(Value::Null) => Ok(None),
            Some(other) if self.is_strict => Err(bad(path, format!("its {key} is no text: {other}"))),
            Some(_) => Ok(None),
        }
    }

    fn check_name(&self, name: &str, path: &str) -> Result<(), BadSchema> {
        let is_valid = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            && name.starts_with(|letter: char| !letter.is_ascii_digit());
        if !self.is_strict || is_valid {
            return Ok(());
        }
        let reason = format!("it has the name '{name}'; names have letters, digits and _, and begin with no digit");
        Err(bad(path, reason))
    }

    /// Has a type be known by its name. The type that has the name already, if there is one, keeps it.
    fn define(&mut self, name: &Name, id: TypeId, path: &str) -> Result<Option<TypeId>, BadSchema> {
        if primitive(&name.full).is_some() {
            return Err(bad(path, format!("{} is the name of a primitive type", name.full)));
        }
        let before = self.named.get(&name.full).copied();
        if before.is_none() {
            self.named.insert(name.full.clone(), id);
        }
        Ok(before)
    }

    /// Chooses between two types of one name, which must be equal except for documentation and aliases, as in Java.
    fn alike(&self, before: Option<TypeId>, id: TypeId, path: &str) -> Result<TypeId, BadSchema> {
        let Some(before) = before else { return Ok(id) };
        if !self.open.contains(&before) && self.are_alike(before, id) {
            return Ok(before);
        }
        let name = self.types[id].kind.name().map_or("", |name| &name.full);
        Err(bad(path, format!("the type {name} is defined twice")))
    }

    /// Compares two types. Nested named types are equal only if they are one type.
    fn are_alike(&self, one: TypeId, other: TypeId) -> bool {
        let (one_type, other_type) = (&self.types[one], &self.types[other]);
        let same = |pair: (&TypeId, &TypeId)| pair.0 == pair.1 || self.are_alike(*pair.0, *pair.1);
        if one == other {
            return true;
        }
        if one_type.logical != other_type.logical || one_type.props != other_type.props {
            return false;
        }
        match (&one_type.kind, &other_type.kind) {
            (Kind::Record { name, fields }, Kind::Record { name: other, fields: others }) => {
                let field_alike = |(one, other): (&Field, &Field)| {
                    let are_named_alike = one.name == other.name && one.default == other.default;
                    are_named_alike && one.props == other.props && same((&one.type_id, &other.type_id))
                };
                name.full == other.full && fields.len() == others.len() && fields.iter().zip(others).all(field_alike)
            }
            (Kind::Enum { name, symbols, .. }, Kind::Enum { name: other, symbols: others, .. }) => {
                name.full == other.full && symbols == others
            }
            (Kind::Fixed { name, size }, Kind::Fixed { name: other, size: others }) => {
                name.full == other.full && size == others
            }
            (Kind::Union(branches), Kind::Union(others)) => {
                branches.len() == others.len() && branches.iter().zip(others).all(same)
            }
            (Kind::Array(child), Kind::Array(other)) | (Kind::Map(child), Kind::Map(other)) => same((child, other)),
            (one, other) => one.name().is_none() && one.text() == other.text(),
        }
    }

    fn add(&mut self, kind: Kind, logical: Option<Logical>, path: &str) -> Result<TypeId, BadSchema> {
        if self.types.len() == MAX_TYPES {
            return Err(bad(path, format!("the schema has more than {MAX_TYPES} types")));
        }
        self.types.push(Type { kind, logical, is_empty: false, props: Map::new() });
        Ok(self.types.len() - 1)
    }
}

fn texts(json: Option<&Value>, path: &str, what: &str) -> Result<Vec<Box<str>>, BadSchema> {
    let listed = match json {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(listed)) => listed.iter().map(|each| each.as_str().map(Into::into)).collect(),
        Some(_) => None,
    };
    listed.ok_or_else(|| bad(path, format!("its {what} are no list of texts")))
}

fn full_name(name: &str, namespace: &str) -> Box<str> {
    if name.contains('.') || namespace.is_empty() {
        name.trim_start_matches('.').into()
    } else {
        format!("{namespace}.{name}").into()
    }
}

fn primitive(name: &str) -> Option<Kind> {
    use Kind::{Boolean, Bytes, Double, Float, Int, Long, Null, String};
    [Null, Boolean, Int, Long, Float, Double, Bytes, String].into_iter().find(|kind| kind.text() == name)
}

fn logical(object: &Map<String, Value>, kind: &Kind) -> Option<Logical> {
    let number = |key| object.get(key).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let logical = object.get("logicalType")?.as_str()?;
    Some(match (logical, kind) {
        ("decimal", Kind::Bytes | Kind::Fixed { .. }) => {
            let scale = object.get("scale").filter(|scale| !scale.is_null());
            let (precision, scale) = (number("precision")?, scale.map_or(Some(0), |_| number("scale"))?);
            if precision == 0 || scale > precision {
                return None;
            }
            Logical::Decimal { precision, scale }
        }
        ("date", Kind::Int) => Logical::Date,
        ("time-millis", Kind::Int) => Logical::Time(1_000),
        ("time-micros", Kind::Long) => Logical::Time(1_000_000),
        ("timestamp-millis", Kind::Long) => Logical::Timestamp(1_000),
        ("timestamp-micros", Kind::Long) => Logical::Timestamp(1_000_000),
        ("timestamp-nanos", Kind::Long) => Logical::Timestamp(1_000_000_000),
        ("local-timestamp-millis", Kind::Long) => Logical::LocalTimestamp(1_000),
        ("local-timestamp-micros", Kind::Long) => Logical::LocalTimestamp(1_000_000),
        ("local-timestamp-nanos", Kind::Long) => Logical::LocalTimestamp(1_000_000_000),
        _ => return None,
    })
}
