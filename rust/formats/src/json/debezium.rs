//! Debezium's envelopes, `{before, after, source, op, ts_ms}`, alone or as the `payload` beside a `schema`.

use arrow_schema::{DataType, Fields};

use super::cursor::{Cursor, Fault, Value};
use super::number::integer;
use crate::column::Column;
use crate::error::{Reason, UnsupportedField};
use crate::nested::Structs;

/// Content of an envelope.
#[derive(Debug)]
pub(crate) struct Change<'t> {
    pub(crate) op: &'t str,
    ts_ms: Option<i64>,
    /// Start of the row's object: `before` for a deletion, else `after`. `None` if that is null.
    pub(crate) row: Option<usize>,
}

/// Start of each relevant value in one object.
#[derive(Default)]
struct EnvelopeFields<'t> {
    payload: Option<usize>,
    before: Option<usize>,
    after: Option<usize>,
    op: Option<&'t str>,
    ts_ms: Option<i64>,
}

impl<'t> Change<'t> {
    /// Reads the envelope at the cursor, up to its end. Returns `None` for a null payload, as in a tombstone with a
    /// schema.
    pub(crate) fn read(cursor: &mut Cursor<'t>) -> Result<Option<Self>, Fault> {
        let mut found = EnvelopeFields::read(cursor, 1)?;
        let end = cursor.at;
        if let (Some(payload), None) = (found.payload, found.op) {
            cursor.at = payload;
            if matches!(cursor.value()?, Value::Null) {
                cursor.at = end;
                return Ok(None);
            }
            cursor.at = payload;
            found = EnvelopeFields::read(cursor, 2)?;
        }
        let op = found.op.ok_or_else(|| cursor.fault(Reason::NotAnEnvelope))?;
        let row = if op == "d" { found.before } else { found.after };
        if row.is_none() && matches!(op, "c" | "u" | "r") {
            return Err(cursor.fault(Reason::NotAnEnvelope));
        }
        cursor.at = end;
        Ok(Some(Self { op, ts_ms: found.ts_ms, row }))
    }
}

impl<'t> EnvelopeFields<'t> {
    fn read(cursor: &mut Cursor<'t>, depth: usize) -> Result<Self, Fault> {
        let mut found = Self::default();
        if !matches!(cursor.value()?, Value::Object) {
            return Err(cursor.fault(Reason::NotAnObject));
        }
        if cursor.take(b'}') {
            return Ok(found);
        }
        loop {
            let name = cursor.name()?.raw;
            cursor.peek();
            let start = cursor.at;
            match (name, cursor.value()?) {
                ("op", Value::Text(op)) => found.op = Some(op.raw),
                ("ts_ms", Value::Number(text, true)) => found.ts_ms = integer(text),
                (_, Value::Object) => {
                    match name {
                        "payload" => found.payload = Some(start),
                        "before" => found.before = Some(start),
                        "after" => found.after = Some(start),
                        _ => {}
                    }
                    cursor.skip_inner(true, depth)?;
                }
                (_, Value::Array) => cursor.skip_inner(false, depth)?,
                ("payload", Value::Null) => found.payload = Some(start),
                ("before", Value::Null) => found.before = None,
                ("after", Value::Null) => found.after = None,
                _ => {}
            }
            if !cursor.more(b'}')? {
                return Ok(found);
            }
        }
    }
}

/// Selected fields about the change itself: `__op`, `__deleted` and `__ts_ms`.
#[derive(Default)]
pub(crate) struct ChangeFields {
    op: Option<usize>,
    deleted: Option<usize>,
    ts_ms: Option<usize>,
}

impl ChangeFields {
    /// Refuses fields of types that they cannot have.
    pub(crate) fn new(fields: &Fields) -> Result<Self, UnsupportedField> {
        let find = |name: &str, types: &[DataType], words: &str| match fields.find(name) {
            Some((_, field)) if !types.contains(field.data_type()) => {
                let reason = format!("Debezium's envelope has {words} here, not {}", field.data_type());
                Err(UnsupportedField { path: name.to_owned(), reason })
            }
            found => Ok(found.map(|(index, _)| index)),
        };
        Ok(Self {
            op: find("__op", &[DataType::Utf8], "a utf8")?,
            deleted: find("__deleted", &[DataType::Boolean, DataType::Utf8], "a boolean or a utf8")?,
            ts_ms: find("__ts_ms", &[DataType::Int64], "an int64")?,
        })
    }

    /// Sets these fields in the last row. Returns false if a column is full.
    #[must_use]
    pub(crate) fn set(&self, root: &mut Structs, row: usize, change: &Change<'_>) -> bool {
        let deleted = change.op == "d";
        let mut all = true;
        let change_fields = [self.op, self.deleted, self.ts_ms];
        for (mark, index) in change_fields.into_iter().enumerate() {
            let Some(column) = index.and_then(|index| root.children.get_mut(index)) else { continue };
            column.truncate(row);
            match (column, change.ts_ms) {
                (Column::Utf8(texts), _) if mark == 0 => all &= texts.push(change.op),
                (Column::Utf8(texts), _) => all &= texts.push(if deleted { "true" } else { "false" }),
                (Column::Boolean(bits), _) => bits.push(deleted),
                (Column::Int64(values), Some(ts_ms)) => values.push(ts_ms.to_ne_bytes()),
                (column, _) => column.push_null(),
            }
        }
        all
    }
}
