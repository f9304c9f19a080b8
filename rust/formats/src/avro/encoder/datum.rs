//! Encoding of one value along the schema, without a column.

use std::cell::RefCell;
use std::collections::HashSet;

use super::node::decimal;
use crate::avro::defaults;
use crate::avro::schema::{AvroSchema, Field, Kind, Logical, TypeId};
use crate::datum::{Datum, converted, no_such_field};
use crate::varint::put_zigzag;
use crate::writing::{Fault, UUID_TEXT_BYTES, Written, uuid_text};

/// Limit on the nesting of values: a recursive schema accepts any depth.
const MAX_DEPTH: usize = 64;

const MAX_DEFAULT_VALUES: usize = 100_000;

pub(super) struct DatumWriter<'s> {
    schema: &'s AvroSchema,
    /// Values that do not fit a type of a union. Without them, each level of unions within unions would double the
    /// attempts on what is below.
    failed: RefCell<HashSet<(*const Datum, TypeId)>>,
}

impl<'s> DatumWriter<'s> {
    pub(super) fn new(schema: &'s AvroSchema) -> Self {
        Self { schema, failed: RefCell::default() }
    }

    pub(super) fn write(&self, id: TypeId, datum: &Datum, out: &mut Vec<u8>, depth: usize) -> Written {
        if depth > MAX_DEPTH {
            return Err(Fault::new(format!("values are nested deeper than {MAX_DEPTH}")));
        }
        let each = &self.schema.types[id];
        if let Kind::Union(branches) = &each.kind {
            return self.union(branches, datum, out, depth);
        }
        if let Kind::Enum { symbols, .. } = &each.kind {
            return symbol(symbols, datum, out);
        }
        let unfit = |expected: &str| datum.unfit(&self.schema.text(id), expected);
        match (&each.kind, each.logical, datum.plain()) {
            (Kind::Null, _, Datum::Null) => {}
            (Kind::Null, ..) => return Err(unfit("None")),
            (Kind::Record { fields, .. }, _, Datum::Fields(given)) => return self.record(fields, given, out, depth),
            (Kind::Record { .. }, ..) => return Err(unfit("a dict, or an object with fields")),
            (Kind::Array(items), _, Datum::List(given)) => {
                if !given.is_empty() {
                    put_zigzag(given.len() as i64, out);
                }
                for (index, item) in given.iter().enumerate() {
                    self.write(*items, item, out, depth + 1).map_err(|fault| fault.at(index))?;
                }
                out.push(0);
            }
            (Kind::Array(_), ..) => return Err(unfit("a list")),
            (Kind::Map(values), _, Datum::Fields(given)) => {
                if !given.is_empty() {
                    put_zigzag(given.len() as i64, out);
                }
                for (key, value) in given {
                    put_bytes(key.as_bytes(), out);
                    self.write(*values, value, out, depth + 1).map_err(|fault| fault.under(key.as_bytes()))?;
                }
                out.push(0);
            }
            (Kind::Map(_), ..) => return Err(unfit("a dict whose keys are texts")),
            (kind, Some(logical), value) => return self.logical(id, kind, logical, value, out),
            (kind, None, value) => return scalar(kind, value, out).unwrap_or_else(|expected| Err(unfit(expected))),
        }
        Ok(())
    }

    fn record(&self, fields: &[Field], given: &[(Box<str>, Datum)], out: &mut Vec<u8>, depth: usize) -> Written {
        let mut used = 0;
        for (index, field) in fields.iter().enumerate() {
            // Mostly in the schema's order.
            let found = given
                .get(index)
                .filter(|(name, _)| *name == field.name)
                .or_else(|| given.iter().find(|(name, _)| *name == field.name));
            if let Some((_, value)) = found {
                used += 1;
                self.write(field.type_id, value, out, depth + 1).map_err(|fault| fault.within(&field.name))?;
                continue;
            }
            let Some(default) = &field.default else {
                let kind = self.schema.text(field.type_id);
                let reason = format!("is missing, and the schema has {kind} there, without a default");
                return Err(Fault::new(reason).within(&field.name));
            };
            let mut steps = MAX_DEFAULT_VALUES;
            defaults::encode(self.schema, field.type_id, default, out, &mut steps, 0)
                .map_err(|reason| Fault::new(reason).within(&field.name))?;
        }
        if used < given.len()
            && let Some((name, _)) = given.iter().find(|(name, _)| fields.iter().all(|field| field.name != *name))
        {
            return Err(no_such_field(name, fields.iter().map(|field| &*field.name)));
        }
        Ok(())
    }

    /// Writes the first branch that takes the value, of those whose type is most like its own.
    fn union(&self, branches: &[TypeId], datum: &Datum, out: &mut Vec<u8>, depth: usize) -> Written {
        let mut tried: Vec<(usize, TypeId)> = branches.iter().copied().enumerate().collect();
        tried.sort_by_key(|(_, id)| self.distance(*id, datum));
        let (start, mut own) = (out.len(), None);
        let is_compound = matches!(datum.plain(), Datum::Fields(_) | Datum::List(_));
        for (branch, id) in tried {
            let attempt = (std::ptr::from_ref(datum), id);
            if is_compound && self.failed.borrow().contains(&attempt) {
                continue;
            }
            put_zigzag(branch as i64, out);
            match self.write(id, datum, out, depth + 1) {
                Ok(()) => return Ok(()),
                Err(fault) => {
                    out.truncate(start);
                    if is_compound {
                        self.failed.borrow_mut().insert(attempt);
                    }
                    // Of a type that may be null as well, the fault is that of the type.
                    if branches.len() == 2 && !matches!(self.schema.kind(id), Kind::Null) {
                        own = own.or(Some(fault));
                    }
                }
            }
        }
        let may_be_null = branches.iter().any(|id| matches!(self.schema.kind(*id), Kind::Null));
        Err(own.filter(|_| may_be_null).unwrap_or_else(|| {
            let kinds: Vec<String> = branches.iter().map(|id| self.schema.text(*id)).collect();
            datum.unfit("a union", &format!("a value of one of its types: {}", kinds.join(", ")))
        }))
    }

    /// Distance of a type from a value: smaller is tried first.
    fn distance(&self, id: TypeId, datum: &Datum) -> u8 {
        let each = &self.schema.types[id];
        let is_member = matches!(datum, Datum::Enum(..));
        if is_member && matches!(each.kind, Kind::Enum { .. }) {
            return 0;
        }
        let is_like = match (&each.kind, each.logical, datum.plain()) {
            (Kind::Null, _, Datum::Null)
            | (Kind::Boolean, None, Datum::Boolean(_))
            | (Kind::Double, None, Datum::Float(_))
            | (Kind::String, None, Datum::Text(_) | Datum::Uuid(_))
            | (Kind::Bytes, None, Datum::Bytes(_))
            | (Kind::Array(_), _, Datum::List(_))
            | (Kind::Record { .. }, _, Datum::Fields(_))
            | (_, Some(Logical::Decimal { .. }), Datum::Decimal(..))
            | (_, Some(Logical::Date), Datum::Date(_))
            | (_, Some(Logical::Time(_)), Datum::Time(_))
            | (_, Some(Logical::Timestamp(_)), Datum::Timestamp(_))
            | (_, Some(Logical::LocalTimestamp(_)), Datum::LocalTimestamp(_)) => true,
            (Kind::Int, None, Datum::Int(number)) => i32::try_from(*number).is_ok(),
            (Kind::Long, None, Datum::Int(number)) => i32::try_from(*number).is_err(),
            _ => false,
        };
        match (&each.kind, each.logical) {
            _ if is_like => u8::from(is_member),
            (Kind::Int | Kind::Long | Kind::Enum { .. }, None) => 1,
            (Kind::Float | Kind::Double, None) => 2,
            _ => 3,
        }
    }

    fn logical(&self, id: TypeId, kind: &Kind, logical: Logical, value: &Datum, out: &mut Vec<u8>) -> Written {
        let text = || self.schema.text(id);
        let unfit = |expected: &str| value.unfit(&text(), expected);
        let micros = match (logical, value) {
            (Logical::Decimal { precision, scale }, value) => {
                let size = if let Kind::Fixed { size, .. } = kind { Some(*size) } else { None };
                let number = value.decimal(precision, scale).ok_or_else(|| unfit("a Decimal or an int"))?;
                return decimal(number?, size, out);
            }
            // Integers have the schema's physical type, regardless of the logical type.
            (_, Datum::Int(_)) => {
                return scalar(kind, value, out).unwrap_or_else(|expected| Err(unfit(expected)));
            }
            (Logical::Date, Datum::Date(days)) => {
                put_zigzag(i64::from(*days), out);
                return Ok(());
            }
            (Logical::Date, _) => return Err(unfit("a date")),
            (Logical::Time(_), Datum::Time(micros))
            | (Logical::Timestamp(_), Datum::Timestamp(micros))
            | (Logical::LocalTimestamp(_), Datum::LocalTimestamp(micros)) => *micros,
            (Logical::Time(_), _) => return Err(unfit("a time")),
            (Logical::Timestamp(_), _) => return Err(unfit("a datetime with a zone")),
            (Logical::LocalTimestamp(_), _) => return Err(unfit("a datetime without a zone")),
        };
        let (Logical::Time(units) | Logical::Timestamp(units) | Logical::LocalTimestamp(units)) = logical else {
            return Err(unfit("a time"));
        };
        put_zigzag(converted(micros, units, &text())?, out);
        Ok(())
    }
}

/// Writes a value of a type without a meaning of its own; what is expected, if it is another one.
fn scalar(kind: &Kind, value: &Datum, out: &mut Vec<u8>) -> Result<Written, &'static str> {
    let beyond = |kind: &str| Err(Fault::new(format!("a number that the schema's {kind} cannot hold")));
    match (kind, value) {
        (Kind::Boolean, Datum::Boolean(value)) => out.push(u8::from(*value)),
        (Kind::Int, Datum::Int(number)) => match i32::try_from(*number) {
            Ok(number) => put_zigzag(i64::from(number), out),
            Err(_) => return Ok(beyond("int")),
        },
        (Kind::Long, Datum::Int(number)) => match i64::try_from(*number) {
            Ok(number) => put_zigzag(number, out),
            Err(_) => return Ok(beyond("long")),
        },
        (Kind::Float, value) => match value.float().ok_or("a float or an int")? {
            Ok(number) => out.extend(number.to_le_bytes()),
            Err(fault) => return Ok(Err(fault)),
        },
        (Kind::Double, value) => match value.double().ok_or("a float or an int")? {
            Ok(number) => out.extend(number.to_le_bytes()),
            Err(fault) => return Ok(Err(fault)),
        },
        (Kind::String, Datum::Text(text)) => put_bytes(text.as_bytes(), out),
        (Kind::String, Datum::Uuid(uuid)) => {
            put_zigzag(UUID_TEXT_BYTES as i64, out);
            uuid_text(uuid, out);
        }
        (Kind::Bytes, Datum::Bytes(bytes)) => put_bytes(bytes, out),
        (Kind::Fixed { size, .. }, Datum::Bytes(bytes)) if bytes.len() == *size => out.extend_from_slice(bytes),
        (Kind::Fixed { size: 16, .. }, Datum::Uuid(uuid)) => out.extend_from_slice(uuid),
        (Kind::Fixed { size, .. }, Datum::Bytes(bytes)) => {
            let length = bytes.len();
            return Ok(Err(Fault::new(format!("{length} bytes, where the schema's fixed has {size}"))));
        }
        (Kind::Boolean, _) => return Err("a bool"),
        (Kind::Int | Kind::Long, _) => return Err("an int"),
        (Kind::String, _) => return Err("a str"),
        _ => return Err("bytes"),
    }
    Ok(Ok(()))
}

/// Writes the number of an enum's symbol: the value of an enumeration's member, or else its name.
fn symbol(symbols: &[Box<str>], datum: &Datum, out: &mut Vec<u8>) -> Written {
    let number = |text: &str| symbols.iter().position(|symbol| **symbol == *text);
    let found = match datum {
        Datum::Text(text) => number(text),
        Datum::Enum(name, value) => match &**value {
            Datum::Text(text) => number(text).or_else(|| number(name)),
            _ => number(name),
        },
        other => return Err(other.unfit("an enum", "a str or a member of an Enum")),
    };
    match found {
        Some(number) => {
            put_zigzag(number as i64, out);
            Ok(())
        }
        None => {
            let known: Vec<&str> = symbols.iter().take(8).map(|symbol| &**symbol).collect();
            let more = if symbols.len() > known.len() { ", ..." } else { "" };
            Err(Fault::new(format!("{datum} that is no symbol of the enum, which has {}{more}", known.join(", "))))
        }
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_zigzag(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}
