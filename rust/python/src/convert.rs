//! Functions of the Python package that our classes call: conversions (`monedula.reading._export`), and errors with
//! hints for people from other clients (`monedula._migration_hints`).

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

const CONVERSIONS: &str = "monedula.reading._export";
const MOVING: &str = "monedula._migration_hints";

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
