//! Cells of typed columns as Python's values, for rows that are taken one by one.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time64MicrosecondType, TimestampMicrosecondType,
    TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDate, PyDelta, PyDict, PyList, PyString, PyTime, PyType};
use pyo3::{IntoPyObjectExt, types::PyDateTime};

/// A cell as Python has it: a struct and a map as a dict, a list as a list, a decimal as `Decimal`, a timestamp as
/// `datetime`. Times that Python cannot hold are the number of days or microseconds since 1970; timestamps in
/// nanoseconds, which `datetime` has not, are always numbers.
pub(crate) fn typed_value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py),
        DataType::Int8 => number::<Int8Type>(column, row).into_bound_py_any(py),
        DataType::Int16 => number::<Int16Type>(column, row).into_bound_py_any(py),
        DataType::Int32 => number::<Int32Type>(column, row).into_bound_py_any(py),
        DataType::Int64 => number::<Int64Type>(column, row).into_bound_py_any(py),
        DataType::UInt32 => number::<UInt32Type>(column, row).into_bound_py_any(py),
        DataType::UInt64 => number::<UInt64Type>(column, row).into_bound_py_any(py),
        DataType::Float32 => number::<Float32Type>(column, row).into_bound_py_any(py),
        DataType::Float64 => number::<Float64Type>(column, row).into_bound_py_any(py),
        DataType::Utf8 => Ok(text(py, column.as_string::<i32>().value(row))?.into_any()),
        DataType::Binary => Ok(bytes(py, column.as_binary::<i32>().value(row))?.into_any()),
        DataType::Decimal128(_, _) => {
            let text = column.as_primitive::<Decimal128Type>().value_as_string(row);
            static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            DECIMAL.import(py, "decimal", "Decimal")?.call1((text,))
        }
        DataType::Date32 => date(py, number::<Date32Type>(column, row)),
        DataType::Time32(_) => time(py, i64::from(number::<Time32MillisecondType>(column, row)) * 1_000),
        DataType::Time64(_) => time(py, number::<Time64MicrosecondType>(column, row)),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            number::<TimestampNanosecondType>(column, row).into_bound_py_any(py)
        }
        DataType::Timestamp(_, zone) => datetime(py, number::<TimestampMicrosecondType>(column, row), zone.is_some()),
        DataType::Duration(_) => duration(py, number::<DurationMicrosecondType>(column, row)),
        DataType::Struct(fields) => {
            let value = PyDict::new(py);
            for (field, child) in fields.iter().zip(column.as_struct().columns()) {
                value.set_item(field.name(), typed_value(py, child, row)?)?;
            }
            Ok(value.into_any())
        }
        DataType::List(_) => {
            let elements = column.as_list::<i32>().value(row);
            let list = PyList::empty(py);
            for index in 0..elements.len() {
                list.append(typed_value(py, &elements, index)?)?;
            }
            Ok(list.into_any())
        }
        DataType::Map(_, _) => {
            let entries = column.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let map = PyDict::new(py);
            for index in 0..entries.len() {
                map.set_item(typed_value(py, keys, index)?, typed_value(py, values, index)?)?;
            }
            Ok(map.into_any())
        }
        other => Err(PyTypeError::new_err(format!("no Python value for a column of type {other}"))),
    }
}

/// A text that may be large: `PyString::new` would panic if there is no memory.
fn text<'py>(py: Python<'py>, cell: &str) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, cell.as_bytes())
}

/// Bytes that may be many: `PyBytes::new` would panic if there is no memory.
pub(crate) fn bytes<'py>(py: Python<'py>, cell: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, cell.len(), |bytes| {
        bytes.copy_from_slice(cell);
        Ok(())
    })
}

fn number<T: ArrowPrimitiveType>(column: &ArrayRef, row: usize) -> T::Native {
    column.as_primitive::<T>().value(row)
}

/// Days since 1970 as a date, if Python has that.
fn date(py: Python<'_>, days: i32) -> PyResult<Bound<'_, PyAny>> {
    let epoch = PyDate::new(py, 1970, 1, 1)?;
    match PyDelta::new(py, days, 0, 0, false).and_then(|delta| epoch.add(delta)) {
        Ok(date) => Ok(date),
        Err(_) => days.into_bound_py_any(py),
    }
}

/// Microseconds since midnight, less than a day, as a time.
fn time(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    let (seconds, rest) = (micros / 1_000_000, (micros % 1_000_000) as u32);
    let (hour, minute, second) = ((seconds / 3_600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8);
    Ok(PyTime::new(py, hour, minute, second, rest, None)?.into_any())
}

/// Microseconds as a `timedelta`, if Python has that.
fn duration(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as i32);
    let (days, seconds) = (seconds.div_euclid(86_400) as i32, seconds.rem_euclid(86_400) as i32);
    match PyDelta::new(py, days, seconds, rest, false) {
        Ok(delta) => Ok(delta.into_any()),
        Err(_) => micros.into_bound_py_any(py),
    }
}

/// Microseconds since 1970 as a time in UTC, or by a clock without a zone, if Python has that.
fn datetime(py: Python<'_>, micros: i64, is_zoned: bool) -> PyResult<Bound<'_, PyAny>> {
    let zone = pyo3::types::PyTzInfo::utc(py)?;
    let epoch = PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, is_zoned.then_some(&*zone))?;
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as i32);
    let (days, seconds) = (seconds.div_euclid(86_400) as i32, seconds.rem_euclid(86_400) as i32);
    match PyDelta::new(py, days, seconds, rest, false).and_then(|delta| epoch.add(delta)) {
        Ok(time) => Ok(time),
        Err(_) => micros.into_bound_py_any(py),
    }
}
