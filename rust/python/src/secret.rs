//! `Secret`: bytes of Python's side that no repr shows.

use monedula_client::Secret;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A password or key that no repr, log or pickle shows.
///
/// `expose()` returns its bytes. Two secrets are equal if their bytes are; the comparison takes the same time wherever
/// they differ.
///
/// Args:
///     value: a str (its UTF-8 is taken as it is), bytes, or another `Secret`.
///
/// Raises:
///     TypeError: for any other value. The message has its type only.
///     ValueError: for text with lone surrogates, as Python makes them of bytes that are no UTF-8.
#[pyclass(frozen, eq, from_py_object, name = "Secret", module = "monedula.admin")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PySecret(pub(crate) Secret);

#[pymethods]
impl PySecret {
    #[new]
    #[pyo3(signature = (value, /))]
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(secret) = value.cast::<Self>() {
            return Ok(secret.get().clone());
        }
        if let Ok(text) = value.cast::<PyString>() {
            // Python's own error would hold the text.
            let text = text.to_str().map_err(|_| PyValueError::new_err("a secret of text must be valid UTF-8"))?;
            return Ok(Self(Secret::new(text.as_bytes())));
        }
        match value.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self(Secret::new(bytes.as_bytes()))),
            Err(_) => {
                let message = format!("a secret is a str or bytes, not {}", value.get_type().name()?);
                Err(PyTypeError::new_err(message))
            }
        }
    }

    /// The bytes themselves.
    fn expose<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.expose())
    }

    fn __repr__(&self) -> &'static str {
        "Secret(***)"
    }

    fn __bool__(&self) -> bool {
        !self.0.is_empty()
    }
}
