//! JSON encoder: rows of an Arrow column become JSON texts, with the semantics of Spark's `to_json`.
//!
//! A column is bound to the type that its values are decoded as (`bind.rs`), given by a schema or derived from its own
//! type; each row is then written by the resulting tree of nodes (`node.rs`). Numbers and texts are in `scalar.rs`.
//! Decoding the output gives the rows again: where Spark's formats would cut a value, more digits are written.

mod bind;
mod datum;
mod node;
mod scalar;
mod shown;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Fields};

use self::bind::{Binder, natural};
use self::node::Node;
pub(in crate::json) use self::scalar::text;
use super::options::{Envelope, JsonOptions};
use super::schema_text::schema_text;
use crate::avro::{WriterKey, bad};
use crate::column::nullable;
use crate::datum::{BadDatum, Datum, column, first};
use crate::error::UnsupportedField;
use crate::writing::{Unwritable, encoder_methods, frame};

/// Encodes the rows of columns as JSON texts.
#[derive(Debug, Clone)]
pub struct JsonEncoder {
    /// Fields of the objects; `None` for the column's own.
    fields: Option<Fields>,
    options: JsonOptions,
    frame: Vec<u8>,
    /// True if a schema of a registry says what values are.
    is_registered: bool,
    /// Texts for a screen, never read by a schema: any value, with times in ISO 8601.
    is_shown: bool,
}

impl JsonEncoder {
    /// Makes an encoder of objects with these fields, or with the columns' own. The frame of each value names its
    /// schema by `key`.
    ///
    /// # Errors
    /// Field of a type that cannot be decoded, or two fields of one name.
    pub fn new(fields: Option<&Fields>, key: WriterKey, options: JsonOptions) -> Result<Self, UnsupportedField> {
        let fields = fields.map(|fields| nullable(fields, "", 0)).transpose()?;
        Ok(Self { fields, options, frame: frame(key), is_registered: key != WriterKey::Only, is_shown: false })
    }

    /// An encoder for a screen, of columns of any type, with all nulls. Times are in ISO 8601, or numbers of their unit
    /// outside the years 1 to 9999; lengths of time are seconds, as in Protobuf's JSON.
    pub fn shown() -> Self {
        let options = JsonOptions { ignore_null_fields: false, ..JsonOptions::default() };
        Self { fields: None, options, frame: Vec::new(), is_registered: false, is_shown: true }
    }

    /// Names of the fields, if they are known without a column.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.fields.as_ref().map(|fields| fields.iter().map(|field| &**field.name()).collect())
    }

    encoder_methods!();

    /// One value behind its frame: an object of the fields, or, without these, any value.
    ///
    /// # Errors
    /// The field that is no value of the schema.
    pub fn encode_datum(&self, datum: &Datum) -> Result<Vec<u8>, BadDatum> {
        if let Some(fields) = &self.fields {
            let column = column(&DataType::Struct(fields.clone()), &[datum])?;
            return first(self.encode(&column)?);
        }
        let mut out = self.frame.clone();
        datum::write(&self.options, datum, &mut out, 0)?;
        Ok(out)
    }

    /// JSON Schema of the values of a column of this type.
    ///
    /// # Errors
    /// [`Unwritable::Column`] if it cannot be encoded, or if its values are no objects.
    pub fn schema_text(&self, data_type: &DataType) -> Result<String, Unwritable> {
        self.check(data_type)?;
        let own = match &self.fields {
            Some(fields) => DataType::Struct(fields.clone()),
            None => natural(data_type, "", 0, false).map_err(Unwritable::Column)?,
        };
        match own {
            DataType::Struct(fields) => Ok(schema_text(&fields)),
            other => Err(Unwritable::Column(bad("", format!("values of {other} are no objects, and have no schema")))),
        }
    }

    fn bind<'a>(&'a self, column: &'a ArrayRef) -> Result<Node<'a>, Unwritable> {
        if self.options.envelope != Envelope::None {
            return Err(Unwritable::Column(bad(
                "",
                "the option envelope is for reading; rows are written without one",
            )));
        }
        let embeds_json = self.fields.is_none() && !self.is_registered;
        let binder = Binder { options: &self.options, embeds_json, is_shown: self.is_shown };
        binder.root(self.fields.as_ref(), column).map_err(Unwritable::Column)
    }
}
