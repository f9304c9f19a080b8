//! Converts the arguments of `send`, borrowing where possible.

use monedula_client::producer::Header;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};

use crate::error::argument_error;
use crate::interpreter::deferred_error::{self, put_off};

pub(crate) enum Data<'a> {
    Borrowed(&'a [u8]),
    /// From a `bytearray` or `memoryview`, which other threads may write to.
    Copied(Vec<u8>),
}

impl Data<'_> {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

#[inline]
pub(crate) fn topic<'a>(topic: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    match topic.cast::<PyString>() {
        Ok(topic) => text("topic", topic),
        Err(_) => {
            let message = format!("topic={}: expected its name, a str", short(topic));
            Err(argument_error(topic.py(), message))
        }
    }
}

/// A key or value: bytes as they are, a str in UTF-8.
#[inline]
pub(crate) fn data<'a>(name: &str, given: Option<&'a Bound<'_, PyAny>>) -> PyResult<Option<Data<'a>>> {
    let Some(given) = given else { return Ok(None) };
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Some(Data::Borrowed(bytes.as_bytes())));
    }
    if let Ok(given) = given.cast::<PyString>() {
        return Ok(Some(Data::Borrowed(text(name, given)?.as_bytes())));
    }
    copied(given).map(|bytes| Some(Data::Copied(bytes))).ok_or_else(|| no_data(name, given))
}

#[inline]
fn text<'a>(name: &str, given: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    given.to_str().map_err(|error| {
        argument_error(given.py(), format!("{name}: this str cannot be written as UTF-8 ({error}); give bytes"))
    })
}

#[cold]
fn copied(given: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let bytes = PyBuffer::<u8>::get(given).and_then(|buffer| buffer.to_vec(given.py()));
    bytes.map_err(|error| put_off(given.py(), error)).ok()
}

#[cold]
fn no_data(name: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let hint = if given.cast::<PyDict>().is_ok() || given.cast::<PyList>().is_ok() {
        "json.dumps() makes a str of it, and a producer with value=monedula.Json() or Avro(schema) encodes it"
    } else if given.cast::<PyInt>().is_ok() {
        "str() makes a text of it, int.to_bytes() or struct.pack() bytes"
    } else {
        "encode it first, or make the producer with value=monedula.Avro(schema), Protobuf(schema) or Json(schema)"
    };
    argument_error(given.py(), format!("{name}={}: expected bytes, str or None; {hint}", short(given)))
}

/// The value and its type, shortened, for an error message.
pub(crate) fn short(given: &Bound<'_, PyAny>) -> String {
    let (shown, name) = (deferred_error::repr(given), type_name(given));
    let cut: String = shown.chars().take(60).collect();
    let dots = if cut.len() < shown.len() { "..." } else { "" };
    format!("{cut}{dots} ({name})")
}

/// The name of the value's type.
pub(super) fn type_name(given: &Bound<'_, PyAny>) -> String {
    given.get_type().name().map_or_else(|_| "?".into(), |name| deferred_error::text(&name))
}

/// Milliseconds since 1970, from a whole number or an aware datetime.
#[inline]
pub(crate) fn timestamp(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
    let Some(given) = given else { return Ok(None) };
    if let Ok(milliseconds) = given.cast_exact::<PyInt>()
        && let Ok(milliseconds @ 0..) = milliseconds.extract::<i64>()
    {
        return Ok(Some(milliseconds));
    }
    let milliseconds = given.py().import("monedula._arguments")?.call_method1("timestamp_ms", (given,))?;
    let too_late = |_| argument_error(given.py(), format!("timestamp={} does not fit into 64 bits", short(given)));
    milliseconds.extract::<i64>().map(Some).map_err(too_late)
}

#[inline]
pub(crate) fn partition(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i32>> {
    let Some(given) = given else { return Ok(None) };
    match given.extract::<i32>().map_err(|error| put_off(given.py(), error)) {
        // True and False are whole numbers for Python, and no partitions.
        Ok(partition @ 0..) if !given.is_instance_of::<PyBool>() => Ok(Some(partition)),
        _ => {
            let message = format!(
                "partition={}: expected a whole number, 0 or more; leave it out to have the partitioner choose",
                short(given)
            );
            Err(argument_error(given.py(), message))
        }
    }
}

/// Headers. Owns their strings and bytes while the record is encoded.
#[derive(Default)]
pub(crate) struct Headers<'py>(Vec<(Bound<'py, PyString>, Option<Bound<'py, PyAny>>)>);

impl<'py> Headers<'py> {
    /// From pairs, or from a dict.
    pub(crate) fn of(given: Option<&Bound<'py, PyAny>>) -> PyResult<Self> {
        let Some(given) = given else { return Ok(Self::default()) };
        let mut held = Self::default();
        if let Ok(dict) = given.cast::<PyDict>() {
            for (key, value) in dict {
                held.push(&key, value)?;
            }
            return Ok(held);
        }
        // No other iterables: one that can be iterated only once would be used up if the record has to wait.
        if given.cast::<PyList>().is_err() && given.cast::<PyTuple>().is_err() {
            return Err(no_headers(given));
        }
        for pair in given.try_iter()? {
            let pair = pair?;
            let (key, value) = match pair.cast::<PyTuple>() {
                Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, pair.get_item(1)?),
                _ => return Err(no_headers(given)),
            };
            held.push(&key, value)?;
        }
        Ok(held)
    }

    fn push(&mut self, key: &Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<()> {
        let Ok(key) = key.cast::<PyString>() else {
            let message = format!("the header's name {}: expected a str", short(key));
            return Err(argument_error(key.py(), message));
        };
        self.0.push((key.clone(), (!value.is_none()).then_some(value)));
        Ok(())
    }

    /// The bytes of the values; to be kept while [`Self::headers`] is used.
    pub(crate) fn values(&self) -> PyResult<Vec<Option<Data<'_>>>> {
        self.0.iter().map(|(_, value)| data("a header's value", value.as_ref())).collect()
    }

    pub(crate) fn headers<'a>(&'a self, values: &'a [Option<Data<'_>>]) -> PyResult<Vec<Header<'a>>> {
        let pairs = self.0.iter().zip(values);
        pairs
            .map(|((key, _), value)| {
                let key = text("a header's name", key)?.as_bytes();
                Ok(Header { key, value: value.as_ref().map(Data::bytes) })
            })
            .collect()
    }
}

#[cold]
fn no_headers(given: &Bound<'_, PyAny>) -> PyErr {
    let message =
        format!("headers={}: expected pairs such as [(\"trace\", b\"1\")] in a list, or a dict", short(given));
    argument_error(given.py(), message)
}
