//! Keys and values of single records, encoded by the schemas of their topic.

use arrow_schema::DataType;
use monedula_formats::{BadDatum, Datum};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::argument::BadArgument;
use crate::formats::datum::datum;
use crate::formats::encoder::Encoder;
use crate::formats::typed_rows::{WrittenAs, header_name};

/// A key or value that is encoded later, as it was when it was given.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct RecordDraft(Draft);

enum Draft {
    Datum(Datum),
    /// A message of Google's classes: its full name, and its bytes.
    Message(String, Vec<u8>),
}

/// Encoder of keys or values.
pub(crate) struct RecordEncoder {
    name: &'static str,
    written: WrittenAs,
    data_type: DataType,
}

impl RecordEncoder {
    pub(crate) fn new(name: &'static str, written: WrittenAs, data_type: DataType) -> Self {
        Self { name, written, data_type }
    }

    /// The header that names the schema, if that does not stand before the value.
    pub(crate) fn header(&self) -> Option<(&'static str, &[u8])> {
        Some((header_name(self.name), self.written.header.as_deref()?))
    }

    /// Bytes of an object, or of its draft.
    pub(crate) fn encode<'py>(&self, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = given.py();
        let encoded = match given.cast_exact::<RecordDraft>() {
            Ok(draft) => self.encode_draft(&draft.get().0),
            Err(_) => self.encode_draft(&RecordDraft::read(py, self.name, given)?),
        };
        encoded.map(|bytes| PyBytes::new(py, bytes.as_slice())).map_err(|bad| told(py, self.name, bad))
    }

    fn encode_draft(&self, draft: &Draft) -> Result<Vec<u8>, BadDatum> {
        match (draft, &self.written.encoder) {
            (Draft::Datum(datum), Encoder::Avro(encoder)) => encoder.encode_datum(datum),
            (Draft::Datum(datum), Encoder::Json(encoder)) => encoder.encode_datum(datum),
            (Draft::Datum(datum), Encoder::Protobuf(encoder)) => encoder.encode_datum(datum, &self.data_type),
            (Draft::Message(name, bytes), Encoder::Protobuf(encoder)) if name == encoder.message() => {
                Ok(encoder.framed(bytes))
            }
            (Draft::Message(name, _), Encoder::Protobuf(encoder)) => {
                let reason = format!("a message {name}, and the schema's is {}", encoder.message());
                Err(BadDatum { path: String::new(), reason })
            }
            (Draft::Message(name, _), _) => {
                let reason = format!("a message {name} of Protobuf, and the schema is none of it");
                Err(BadDatum { path: String::new(), reason })
            }
        }
    }
}

impl RecordDraft {
    pub(crate) fn of(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Self::read(given.py(), name, given).map(Self)
    }

    fn read(py: Python<'_>, name: &str, given: &Bound<'_, PyAny>) -> PyResult<Draft> {
        if given.cast_exact::<PyDict>().is_err()
            && let Some(descriptor) = given.getattr_opt("DESCRIPTOR")?
            && let Some(serialize) = given.getattr_opt("SerializeToString")?
        {
            return Ok(Draft::Message(descriptor.getattr("full_name")?.extract()?, serialize.call0()?.extract()?));
        }
        match datum(given, 0) {
            Ok(datum) => Ok(Draft::Datum(datum)),
            Err(no) => Err(told(py, name, no.bad(py)?)),
        }
    }
}

fn told(py: Python<'_>, name: &str, bad: BadDatum) -> PyErr {
    let BadDatum { path, reason } = bad;
    let reason = if path.is_empty() { reason } else { format!("{path}: {reason}") };
    BadArgument::of(name, reason).with_hint("`nothing was sent`").to_py(py)
}
