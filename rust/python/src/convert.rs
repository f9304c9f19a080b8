//! Functions of the Python package that our classes call: conversions (`monedula.reading._export`), tables in HTML
//! (`monedula._reprs`), and errors with hints for people from other clients (`monedula._migration_hints`).

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::formats::typed_values::typed_value;

const CONVERSIONS: &str = "monedula.reading._export";
const MOVING: &str = "monedula._migration_hints";
const REPRS: &str = "monedula._reprs";

/// Number of rows that notebooks show.
const HTML_ROWS: usize = 10;

pub(crate) fn to_pyarrow<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    data.py().import(CONVERSIONS)?.call_method1("to_pyarrow", (data,))
}

pub(crate) fn to_pandas<'py>(
    data: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    data.py().import(CONVERSIONS)?.call_method1("to_pandas", (data, options))
}

pub(crate) fn to_polars<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    data.py().import(CONVERSIONS)?.call_method1("to_polars", (data,))
}

/// A column of a batch as a `pyarrow.Array`.
pub(crate) fn column<'py>(data: &Bound<'py, PyAny>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    data.py().import(CONVERSIONS)?.call_method1("column", (data, name))
}

/// The first rows of `rows` as HTML, below the repr of the object that has them.
pub(crate) fn to_html<'py>(data: &Bound<'py, PyAny>, rows: &RecordBatch) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    let schema = rows.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut cells: Vec<Vec<Bound<'py, PyAny>>> = Vec::new();
    for row in 0..rows.num_rows().min(HTML_ROWS) {
        cells.push(rows.columns().iter().map(|column| typed_value(py, column, row)).collect::<PyResult<_>>()?);
    }
    py.import(REPRS)?.call_method1("html_table", (data.repr()?, names, cells, rows.num_rows()))
}

pub(crate) fn no_array(data: &Bound<'_, PyAny>) -> PyErr {
    raised(data.py().import(CONVERSIONS).and_then(|module| module.call_method1("no_array", (data,))))
}

/// The `AttributeError` of an attribute that an object does not have.
#[cold]
pub(crate) fn no_attribute(of: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyErr {
    raised(of.py().import(MOVING).and_then(|module| module.call_method1("no_attribute", (of, name))))
}

/// The `TypeError` of a keyword that a method does not take.
#[cold]
pub(crate) fn no_argument(py: Python<'_>, method: &str, keyword: &str) -> PyErr {
    raised(py.import(MOVING).and_then(|module| module.call_method1("no_argument", (method, (keyword,)))))
}

fn raised(made: PyResult<Bound<'_, PyAny>>) -> PyErr {
    made.map_or_else(|failure| failure, PyErr::from_value)
}
