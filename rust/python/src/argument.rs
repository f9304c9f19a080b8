//! An argument that is refused, with the attributes of Python's `ArgumentError`.

use monedula_formats::{BadOption, BadSchema};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::exception;

#[derive(Debug, Default)]
pub(crate) struct BadArgument {
    argument: Option<Box<str>>,
    value: Option<&'static str>,
    option: Option<Box<str>>,
    row: Option<usize>,
    reason: Box<str>,
    hint: Option<Box<str>>,
}

impl BadArgument {
    pub(crate) fn new(reason: impl Into<Box<str>>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }

    pub(crate) fn of(argument: &str, reason: impl Into<Box<str>>) -> Self {
        Self { argument: Some(argument.into()), ..Self::new(reason) }
    }

    /// A schema that cannot be used, given by this argument.
    pub(crate) fn schema(argument: &str, bad: &BadSchema) -> Self {
        Self { hint: bad.hint.as_deref().map(Into::into), ..Self::of(argument, bad.facts()) }
    }

    /// The same of this argument, whatever it was given in.
    pub(crate) fn of_argument(self, argument: &str) -> Self {
        Self { argument: Some(argument.into()), ..self }
    }

    pub(crate) fn with_value(self, value: &'static str) -> Self {
        Self { value: Some(value), ..self }
    }

    /// Advice on what to give instead; backticks are around Python's names, since a command line and Spark have others.
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same about a row of a table.
    pub(crate) fn in_row(self, row: usize) -> Self {
        Self { row: Some(row), ..self }
    }

    pub(crate) fn to_py(&self, py: Python<'_>) -> PyErr {
        self.build(py).unwrap_or_else(|failure| failure)
    }

    fn build(&self, py: Python<'_>) -> PyResult<PyErr> {
        let details = PyDict::new(py);
        for (name, text) in [("argument", &self.argument), ("key", &self.option), ("hint", &self.hint)] {
            details.set_item(name, text.as_deref())?;
        }
        details.set_item("value", self.value)?;
        details.set_item("row", self.row)?;
        exception(py, "ArgumentError", self.reason.to_string(), &details)
    }
}

impl From<BadOption> for BadArgument {
    fn from(bad: BadOption) -> Self {
        Self { option: Some(bad.name.into()), ..Self::of("options", bad.reason) }
    }
}

impl From<String> for BadArgument {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}
