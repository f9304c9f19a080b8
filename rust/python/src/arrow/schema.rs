//! The schema of batches, which exports itself through Arrow's C schema.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::capsule;

/// The Arrow schema of every batch of a consumer.
#[pyclass(frozen, module = "monedula")]
pub(crate) struct Schema(pub(crate) SchemaRef);

#[pymethods]
impl Schema {
    /// Column names in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Export as an `arrow_schema` capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.0)
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        let fields = self.0.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
        format!("<monedula.Schema {}>", fields.collect::<Vec<_>>().join(", "))
    }
}
