//! The Python class `Table`: a small table built from Python lists, which any Arrow library accepts.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchOptions,
    StringArray,
};
use arrow_schema::{Field, Schema as ArrowSchema};
use monedula_client::error::counted;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow::capsule;
use crate::arrow::schema::Schema;
use crate::convert;
use crate::error::argument_error;

/// A table of rows and columns.
#[pyclass(frozen, module = "monedula")]
pub(crate) struct Table(pub(crate) RecordBatch);

#[pymethods]
impl Table {
    /// A table of columns: name, Arrow type and values.
    #[new]
    fn new(py: Python<'_>, columns: Vec<(String, String, Vec<Bound<'_, PyAny>>)>) -> PyResult<Self> {
        let num_rows = columns.first().map_or(0, |(_, _, values)| values.len());
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays = Vec::with_capacity(columns.len());
        for (name, kind, values) in &columns {
            let array = array(py, kind, values)?;
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(ArrowSchema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
        batch.map(Self).map_err(|error| argument_error(py, error.to_string()))
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.0.schema())
    }

    /// As a `pyarrow.Table`, without a copy. Needs pyarrow (`pip install 'monedula[arrow]'`).
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_pyarrow(slf)
    }

    /// As a `pandas.DataFrame`. Needs pandas and pyarrow (`pip install 'monedula[pandas]'`).
    ///
    /// Args:
    ///     **options: those of pyarrow's `to_pandas`, such as `types_mapper=pandas.ArrowDtype`.
    #[pyo3(signature = (**options))]
    fn to_pandas<'py>(slf: &Bound<'py, Self>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_pandas(slf, options)
    }

    /// As a `polars.DataFrame`. Needs polars (`pip install 'monedula[polars]'`).
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_polars(slf)
    }

    /// Export as an `arrow_array_stream` capsule of one batch. `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let (batch, schema) = (self.0.clone(), self.0.schema());
        capsule::stream(py, Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    /// Export as an `arrow_schema` capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, self.0.schema_ref())
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.0.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        format!("<monedula.Table of {}: {}>", counted(self.num_rows() as u64, "row"), names.join(", "))
    }

    /// The first rows, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        convert::to_html(slf, &slf.get().0)
    }
}

fn array(py: Python<'_>, kind: &str, values: &[Bound<'_, PyAny>]) -> PyResult<ArrayRef> {
    let cells = values.iter();
    Ok(match kind {
        "string" => Arc::new(cells.map(|cell| cell.extract::<Option<String>>()).collect::<PyResult<StringArray>>()?),
        "bool" => Arc::new(cells.map(|cell| cell.extract::<Option<bool>>()).collect::<PyResult<BooleanArray>>()?),
        "int32" => Arc::new(cells.map(|cell| cell.extract::<Option<i32>>()).collect::<PyResult<Int32Array>>()?),
        "int64" => Arc::new(cells.map(|cell| cell.extract::<Option<i64>>()).collect::<PyResult<Int64Array>>()?),
        "double" => Arc::new(cells.map(|cell| cell.extract::<Option<f64>>()).collect::<PyResult<Float64Array>>()?),
        "list<int32>" => {
            let mut builder = ListBuilder::new(Int32Builder::new());
            for cell in cells {
                builder.append_option(cell.extract::<Option<Vec<i32>>>()?.map(|items| items.into_iter().map(Some)));
            }
            Arc::new(builder.finish())
        }
        "list<string>" => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for cell in cells {
                builder.append_option(cell.extract::<Option<Vec<String>>>()?.map(|items| items.into_iter().map(Some)));
            }
            Arc::new(builder.finish())
        }
        other => return Err(argument_error(py, format!("{other}: no such type of column"))),
    })
}
