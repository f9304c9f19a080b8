//! Conditions on records, as `monedula._filters` lowers them.

use std::sync::Arc;

use monedula_columns::{BytesTest, Intervals, Operator, RecordFilter};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// An operator, its values, and true for the opposite.
type PyTest = (String, Vec<PyBackedBytes>, bool);

/// A condition: its kind, and what it is about.
pub(crate) struct PyFilter(RecordFilter);

impl PyFilter {
    pub(crate) fn into_filter(self) -> Arc<RecordFilter> {
        Arc::new(self.0)
    }
}

impl<'py> FromPyObject<'_, 'py> for PyFilter {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (kind, operand): (String, Bound<'py, PyAny>) = object.extract()?;
        let parts = || -> PyResult<Vec<RecordFilter>> {
            Ok(operand.extract::<Vec<Self>>()?.into_iter().map(|part| part.0).collect())
        };
        let numbers = || operand.extract::<Intervals>();
        Ok(Self(match kind.as_str() {
            "all" => RecordFilter::All(parts()?),
            "any" => RecordFilter::Any(parts()?),
            "topic" => RecordFilter::Topic(test(operand.extract()?)?),
            "partition" => RecordFilter::Partition(numbers()?),
            "offset" => RecordFilter::Offset(numbers()?),
            "timestamp" => RecordFilter::Timestamp(numbers()?),
            "key" => RecordFilter::Key(test(operand.extract()?)?),
            "header" => {
                let (name, of_value): (String, PyTest) = operand.extract()?;
                RecordFilter::Header(name.into_bytes(), test(of_value)?)
            }
            other => return Err(PyValueError::new_err(format!("no such condition: {other}"))),
        }))
    }
}

fn test((operator, values, negated): PyTest) -> PyResult<BytesTest> {
    let operator = match operator.as_str() {
        "in" => Operator::In,
        "<" => Operator::Less,
        ">" => Operator::Greater,
        "starts with" => Operator::StartsWith,
        "ends with" => Operator::EndsWith,
        "contains" => Operator::Contains,
        "is null" => Operator::IsNull,
        other => return Err(PyValueError::new_err(format!("no such operator: {other}"))),
    };
    Ok(BytesTest::new(operator, values.iter().map(|value| value.to_vec()).collect(), negated))
}
