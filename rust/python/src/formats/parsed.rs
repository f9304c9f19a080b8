//! Schemas as the registry of the embedded broker keeps them.

use monedula_formats::AvroSchema;
use pyo3::prelude::*;

use crate::error::argument_error;

/// An Avro schema, without its text; see `monedula.testing.registry.avro.AvroSchema`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct ParsedAvro(AvroSchema);

#[pymethods]
impl ParsedAvro {
    /// The schema of a text, beside the texts that it refers to by their names.
    #[new]
    fn new(py: Python<'_>, text: &str, references: Vec<(String, String)>) -> PyResult<Self> {
        let parsed = AvroSchema::parse_strictly(text, &references);
        parsed.map(Self).map_err(|bad| argument_error(py, bad.to_string()))
    }

    fn cannot_read(&self, writer: &Self) -> Vec<String> {
        self.0.cannot_read(&writer.0)
    }
}

/// A Protobuf schema; see `monedula.testing.registry.definition.Parsed`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct ParsedProtobuf(monedula_formats::ParsedProtobuf);

#[pymethods]
impl ParsedProtobuf {
    /// The schema of a text, or of a `FileDescriptorProto` in base64, beside the texts that it refers to by name.
    #[new]
    fn new(py: Python<'_>, text: &str, references: Vec<(String, String)>) -> PyResult<Self> {
        let parsed = monedula_formats::ParsedProtobuf::parse(text, &references);
        parsed.map(Self).map_err(|bad| argument_error(py, bad.to_string()))
    }

    /// The text, of which there is one form for equal schemas.
    #[getter]
    fn canonical(&self) -> &str {
        self.0.text()
    }

    fn normalized(&self) -> &str {
        self.0.text()
    }

    fn cannot_read(&self, writer: &Self) -> Vec<String> {
        self.0.cannot_read(&writer.0)
    }

    /// The descriptor in base64, which is the format `serialized`; `None` of any other, and where there is none.
    fn formatted(&self, name: &str) -> Option<String> {
        (name == "serialized").then(|| self.0.descriptor()).flatten()
    }
}
