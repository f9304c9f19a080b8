//! Avro schemas: from JSON text into a list of types that refer to each other by number, so that a type may contain itself.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::error::BadSchema;

/// How many types a schema may have.
const MAX_TYPES: usize = 10_000;

/// The number of a type in its schema.
pub(crate) type TypeId = usize;

/// An Avro schema.
#[derive(Debug, Clone)]
pub struct AvroSchema {
    pub(crate) types: Vec<Type>,
    pub(crate) root: TypeId,
}

/// A type, and what its values mean.
#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    pub(crate) logical: Option<Logical>,
    /// Whether no value of it takes any bytes.
    pub(crate) is_empty: bool,
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

/// What the values of a type mean. One that does not fit its type is ignored, as the specification has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    Decimal {
        precision: usize,
        scale: usize,
    },
    Date,
    /// A time of day, in so many units a second.
    Time(i64),
    /// A moment, in so many units a second.
    Timestamp(i64),
    /// A date and time by a clock without a zone, in so many units a second.
    LocalTimestamp(i64),
}

/// The name of a record, enum or fixed.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    /// With its namespace.
    pub(crate) full: Box<str>,
    pub(crate) aliases: Vec<Box<str>>,
}

impl Name {
    /// Without the namespace.
    pub(crate) fn short(&self) -> &str {
        short(&self.full)
    }

    fn namespace(&self) -> &str {
        self.full.rsplit_once('.').map_or("", |(namespace, _)| namespace)
    }

    /// Whether the other name, of a writer's type, is this one or an alias of it. Namespaces are not compared: those of
    /// one type differ across teams.
    pub(crate) fn is_of(&self, writers: &Self) -> bool {
        self.short() == writers.short() || self.aliases.iter().any(|alias| short(alias) == writers.short())
    }
}

fn short(full: &str) -> &str {
    full.rsplit_once('.').map_or(full, |(_, short)| short)
}

/// A field of a record.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) aliases: Vec<Box<str>>,
    pub(crate) default: Option<Value>,
    pub(crate) type_id: TypeId,
}

impl AvroSchema {
    /// A schema from its JSON text.
    ///
    /// # Errors
    /// Text that is no JSON, or no schema: where, and why.
    pub fn parse(text: &str) -> Result<Self, BadSchema> {
        Self::parse_beside(text, &[])
    }

    /// As [`Self::parse`], of a text that names types of other schemas. Each of these may name those before it.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_beside(text: &str, others: &[String]) -> Result<Self, BadSchema> {
        let mut parser = Parser { types: Vec::new(), named: HashMap::new(), open: Vec::new() };
        for other in others {
            parser.schema(&json_of(other)?, "", "")?;
        }
        let root = parser.schema(&json_of(text)?, "", "")?;
        let mut schema = Self { types: parser.types, root };
        schema.find_empty();
        Ok(schema)
    }

    /// The full name of the record that it is the schema of, if it is one.
    pub fn record_name(&self) -> Option<&str> {
        match self.kind(self.root) {
            Kind::Record { name, .. } => Some(&name.full),
            _ => None,
        }
    }

    /// The full name of what it is the schema of, if that has one, as records, enums and fixed have.
    pub fn name(&self) -> Option<&str> {
        self.kind(self.root).name().map(|name| &*name.full)
    }

    pub(crate) fn kind(&self, id: TypeId) -> &Kind {
        &self.types[id].kind
    }

    /// Marks the types whose values take no bytes: nulls, fixed of no size, and records of nothing else. It goes over the
    /// types until nothing changes: a record may be numbered before those that it is made of.
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
        // A primitive type may be given by its bare name.
        Err(_) if primitive(text.trim()).is_some() => Ok(Value::String(text.trim().to_owned())),
        Err(error) if error.to_string().starts_with("recursion limit") => {
            Err(bad("", "is nested too deep: JSON is read to a depth of 127, some 40 records".to_owned()))
        }
        Err(error) => Err(bad("", format!("is not JSON: {error}"))),
    }
}

impl Kind {
    /// What it is called in messages.
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

    /// The name of a named type.
    pub(crate) fn name(&self) -> Option<&Name> {
        match self {
            Self::Record { name, .. } | Self::Enum { name, .. } | Self::Fixed { name, .. } => Some(name),
            _ => None,
        }
    }
}

struct Parser {
    types: Vec<Type>,
    named: HashMap<Box<str>, TypeId>,
    /// The records whose fields are not all known yet.
    open: Vec<TypeId>,
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
        let known = self.named.get(&*full_name(name, namespace)).or_else(|| self.named.get(name));
        known.copied().ok_or_else(|| {
            let reason =
                format!("no type {name:?} is defined before this; references to other schemas are not looked up");
            bad(path, reason)
        })
    }

    fn union(&mut self, branches: &[Value], namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        if branches.is_empty() {
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
            // Some write the type of a field, which has a `type` itself, once more around it.
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
                self.add_named(name, kind, logical, path)
            }
            "array" | "map" => {
                let (key, mark) = if kind == "array" { ("items", "[]") } else { ("values", "{}") };
                let Some(json) = object.get(key) else { return Err(bad(path, format!("an {kind} needs {key}"))) };
                let child = self.schema(json, namespace, &format!("{path}{mark}"))?;
                self.add(if kind == "array" { Kind::Array(child) } else { Kind::Map(child) }, None, path)
            }
            name => match primitive(name) {
                Some(kind) => {
                    let logical = logical(object, &kind);
                    self.add(kind, logical, path)
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
        // Known before its fields are: they may be of this type.
        let id = self.add(Kind::Record { name: name.clone(), fields: Vec::new() }, None, path)?;
        let before = self.define(&name, id, path)?;
        self.open.push(id);
        let mut fields: Vec<Field> = Vec::new();
        for (index, json) in listed.iter().enumerate() {
            let named = json.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let Some(field_name) = named else { return Err(bad(path, format!("field {index} has no name"))) };
            let below = if path.is_empty() { field_name.to_owned() } else { format!("{path}.{field_name}") };
            if fields.iter().any(|field| *field.name == *field_name) {
                return Err(bad(&below, "two fields have this name".to_owned()));
            }
            let Some(type_json) = json.get("type") else { return Err(bad(&below, "it has no type".to_owned())) };
            // A field may be an array or map without an object of its own around that. A logical type beside the type is the
            // field's, and says nothing of its values, as in Java.
            let type_id = match (type_json, json.as_object()) {
                (Value::String(kind), Some(object)) if matches!(kind.as_str(), "array" | "map") => {
                    self.object(object, &within, &below)?
                }
                _ => self.schema(type_json, &within, &below)?,
            };
            let aliases = texts(json.get("aliases"), &below, "aliases")?;
            let default = json.get("default").cloned();
            fields.push(Field { name: field_name.into(), aliases, default, type_id });
        }
        self.open.pop();
        self.types[id].kind = Kind::Record { name, fields };
        self.alike(before, id, path)
    }

    fn enumeration(&mut self, object: &Map<String, Value>, namespace: &str, path: &str) -> Result<TypeId, BadSchema> {
        let name = self.name(object, namespace, path)?;
        let symbols = texts(object.get("symbols"), path, "symbols")?;
        if symbols.is_empty() {
            return Err(bad(path, format!("the enum {} has no symbols", name.full)));
        }
        let default: Option<Box<str>> = object.get("default").and_then(Value::as_str).map(Into::into);
        if let Some(default) = default.as_ref().filter(|default| !symbols.contains(default)) {
            return Err(bad(path, format!("the enum's default {default:?} is none of its symbols")));
        }
        self.add_named(name.clone(), Kind::Enum { name, symbols, default }, None, path)
    }

    fn name(&self, object: &Map<String, Value>, namespace: &str, path: &str) -> Result<Name, BadSchema> {
        let Some(name) = object.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return Err(bad(path, "a record, enum or fixed needs a name".to_owned()));
        };
        let namespace = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        let full = full_name(name, namespace);
        let within = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
        let aliases = texts(object.get("aliases"), path, "aliases")?;
        let aliases = aliases.iter().map(|alias| full_name(alias, &within)).collect();
        Ok(Name { full, aliases })
    }

    fn add_named(&mut self, name: Name, kind: Kind, logical: Option<Logical>, path: &str) -> Result<TypeId, BadSchema> {
        let id = self.add(kind, logical, path)?;
        let before = self.define(&name, id, path)?;
        self.alike(before, id, path)
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

    /// The type that counts of two with one name, which have to be the same but for documentation and aliases, as in Java.
    fn alike(&self, before: Option<TypeId>, id: TypeId, path: &str) -> Result<TypeId, BadSchema> {
        let Some(before) = before else { return Ok(id) };
        if !self.open.contains(&before) && self.are_alike(before, id) {
            return Ok(before);
        }
        let name = self.types[id].kind.name().map_or("", |name| &name.full);
        Err(bad(path, format!("the type {name} is defined twice")))
    }

    /// Whether two types are the same. Of what they are made of, types with a name are the same if it is one type.
    fn are_alike(&self, one: TypeId, other: TypeId) -> bool {
        let (one_type, other_type) = (&self.types[one], &self.types[other]);
        let same = |pair: (&TypeId, &TypeId)| pair.0 == pair.1 || self.are_alike(*pair.0, *pair.1);
        if one == other {
            return true;
        }
        if one_type.logical != other_type.logical {
            return false;
        }
        match (&one_type.kind, &other_type.kind) {
            (Kind::Record { name, fields }, Kind::Record { name: other, fields: others }) => {
                let field_alike = |(one, other): (&Field, &Field)| {
                    one.name == other.name && one.default == other.default && same((&one.type_id, &other.type_id))
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
        self.types.push(Type { kind, logical, is_empty: false });
        Ok(self.types.len() - 1)
    }
}

fn bad(path: &str, reason: String) -> BadSchema {
    BadSchema::new(path, reason)
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
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
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
