//! Columns bound to types of the schema, and the encoding of their rows.

use arrow_buffer::NullBuffer;

use crate::varint::put_zigzag;
use crate::writing::{
    Bounds, Decimals, Entries, Fault, Floats, Ints, Texts, Times, UUID_TEXT_BYTES, Written, uuid_text,
};

/// A bound column, or a child of one, and the type of its rows.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) nulls: Option<NullBuffer>,
    pub(super) null: Null,
    /// Branch of a union for rows with a value.
    pub(super) branch: Option<i64>,
    pub(super) values: Values<'a>,
}

#[derive(Debug)]
pub(super) enum Null {
    /// Error: no value of this type is null.
    Refused(Box<str>),
    Branch(i64),
    /// No bytes, as for the type null.
    Nothing,
}

#[derive(Debug)]
pub(super) enum Values<'a> {
    Nulls,
    /// Same bytes for each row: the default of a field without a column.
    Constant(Vec<u8>),
    Booleans(arrow_buffer::BooleanBuffer),
    Int(Ints<'a>),
    Long(Ints<'a>),
    Float(Floats<'a>),
    Double(Floats<'a>),
    /// Integers as floats; true for f64.
    IntsAsFloats(Ints<'a>, bool),
    Bytes(Texts<'a>),
    /// UUIDs, written as texts.
    Uuid(Texts<'a>),
    /// Bytes without their length.
    Raw(Texts<'a>),
    Fixed(Texts<'a>, usize),
    Symbols(Texts<'a>, Symbols),
    Times(Times<'a>),
    /// Decimals, with the size of the fixed that holds them.
    Decimals(Decimals<'a>, Option<usize>),
    Record(Vec<(Box<str>, Node<'a>)>),
    List(Bounds<'a>, Box<Node<'a>>),
    Map(Entries<'a>, Box<Node<'a>>),
    /// Fields of a union's struct, with their branches: one of them has the value.
    Members(Vec<(Box<str>, i64, Node<'a>)>, Option<i64>),
    /// Dictionary or run-end encoded: the index of each row's value, and the values.
    Indexed(Vec<usize>, Box<Node<'a>>),
}

/// Symbols of an enum, ascending, with their indexes.
#[derive(Debug)]
pub(super) struct Symbols {
    pub(super) sorted: Vec<(Box<str>, i64)>,
}

impl Symbols {
    fn number(&self, symbol: &[u8]) -> Written<i64> {
        let found = self.sorted.binary_search_by(|(known, _)| known.as_bytes().cmp(symbol));
        found.map(|at| self.sorted[at].1).map_err(|_| {
            let known: Vec<&str> = self.sorted.iter().take(8).map(|(symbol, _)| &**symbol).collect();
            let more = if self.sorted.len() > known.len() { ", ..." } else { "" };
            let symbol = String::from_utf8_lossy(symbol);
            Fault::new(format!("{symbol:?} is no symbol of the enum, which has {}{more}", known.join(", ")))
        })
    }
}

impl Node<'_> {
    pub(super) fn raw(self) -> Self {
        let values = match self.values {
            Values::Bytes(texts) => Values::Raw(texts),
            Values::Indexed(indices, values) => Values::Indexed(indices, Box::new(values.raw())),
            other => other,
        };
        Self { values, ..self }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        if self.is_null(row) {
            match &self.null {
                Null::Branch(branch) => put_zigzag(*branch, out),
                Null::Nothing => {}
                Null::Refused(kind) => {
                    return Err(Fault::new(format!("is null, and the schema's {kind} takes no null")));
                }
            }
            return Ok(());
        }
        if let Some(branch) = self.branch {
            put_zigzag(branch, out);
        }
        self.values.write(row, out)
    }
}

impl Values<'_> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Nulls => {}
            Self::Constant(bytes) => out.extend_from_slice(bytes),
            Self::Booleans(values) => out.push(u8::from(values.value(row))),
            Self::Int(ints) => put_zigzag(i64::from(ints.int(row)?), out),
            Self::Long(ints) => put_zigzag(ints.long(row)?, out),
            Self::Float(floats) => out.extend_from_slice(&floats.float(row)?.to_le_bytes()),
            Self::Double(floats) => out.extend_from_slice(&floats.double(row).to_le_bytes()),
            Self::IntsAsFloats(ints, true) => out.extend_from_slice(&ints.double(row)?.to_le_bytes()),
            Self::IntsAsFloats(ints, false) => out.extend_from_slice(&ints.float(row)?.to_le_bytes()),
            Self::Bytes(texts) => bytes(texts.get(row)?, out),
            Self::Uuid(texts) => {
                put_zigzag(UUID_TEXT_BYTES as i64, out);
                uuid_text(texts.get(row)?, out);
            }
            Self::Raw(texts) => out.extend_from_slice(texts.get(row)?),
            Self::Fixed(texts, size) => {
                let value = texts.get(row)?;
                if value.len() != *size {
                    let length = value.len();
                    return Err(Fault::new(format!("{length} bytes, where the schema's fixed has {size}")));
                }
                out.extend_from_slice(value);
            }
            Self::Symbols(texts, symbols) => put_zigzag(symbols.number(texts.get(row)?)?, out),
            Self::Times(times) => put_zigzag(times.get(row)?, out),
            Self::Decimals(decimals, size) => decimal(decimals.get(row)?, *size, out)?,
            Self::Record(fields) => {
                for (name, field) in fields {
                    field.write(row, out).map_err(|fault| fault.within(name))?;
                }
            }
            Self::List(bounds, items) => {
                let range = bounds.get(row);
                if !range.is_empty() {
                    put_zigzag(range.len() as i64, out);
                }
                let start = range.start;
                for item in range {
                    items.write(item, out).map_err(|fault| fault.at(item - start))?;
                }
                out.push(0);
            }
            Self::Map(entries, values) => {
                let range = entries.get(row)?;
                if !range.is_empty() {
                    put_zigzag(range.len() as i64, out);
                }
                for entry in range {
                    let key = entries.keys.text(entry);
                    bytes(key, out);
                    values.write(entry, out).map_err(|fault| fault.under(key))?;
                }
                out.push(0);
            }
            Self::Members(members, null) => Self::member(members, *null, row, out)?,
            Self::Indexed(indices, values) => values.write(indices[row], out)?,
        }
        Ok(())
    }

    /// Writes the one field of a union's struct that has a value.
    fn member(members: &[(Box<str>, i64, Node<'_>)], null: Option<i64>, row: usize, out: &mut Vec<u8>) -> Written {
        let mut present = members.iter().filter(|(_, _, member)| !member.is_null(row));
        match (present.next(), present.next(), null) {
            (Some((name, branch, member)), None, _) => {
                put_zigzag(*branch, out);
                member.write(row, out).map_err(|fault| fault.within(name))
            }
            (None, _, Some(null)) => {
                put_zigzag(null, out);
                Ok(())
            }
            (None, _, None) => Err(Fault::new("all members of the union are null, which has no branch for that")),
            (Some((one, ..)), Some((two, ..)), _) => {
                Err(Fault::new(format!("{one} and {two} both have a value; one branch of the union is written")))
            }
        }
    }
}

/// Writes a decimal's bytes: length-prefixed with as many as it takes, or as a fixed of this size.
pub(super) fn decimal(value: i128, size: Option<usize>, out: &mut Vec<u8>) -> Written {
    let bytes = value.to_be_bytes();
    let sign = if value < 0 { 0xff } else { 0 };
    // Drop leading bytes that only repeat the sign.
    let spare =
        bytes.iter().zip(&bytes[1..]).take_while(|(byte, next)| **byte == sign && (**next ^ sign) < 0x80).count();
    let needed = &bytes[spare..];
    match size {
        None => {
            put_zigzag(needed.len() as i64, out);
            out.extend_from_slice(needed);
        }
        Some(size) if needed.len() <= size => {
            out.resize(out.len() + size - needed.len(), sign);
            out.extend_from_slice(needed);
        }
        Some(size) if size == 0 && value == 0 => {}
        Some(size) => {
            return Err(Fault::new(format!("a number that the schema's fixed of {size} bytes cannot hold")));
        }
    }
    Ok(())
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_zigzag(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}
