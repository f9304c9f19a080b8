//! Python's objects as values that are written by a schema: dicts, dataclasses and the like, with all that is in them.

use std::borrow::Cow;

use monedula_formats::{BadDatum, Datum};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};

use crate::interpreter::deferred_error::put_off;

/// Limit on the nesting of values.
const MAX_DEPTH: usize = 64;

/// Days from the year 1 to 1970.
const DAYS_TO_1970: i32 = 719_163;

/// Reason that an object is no value.
pub(crate) enum NoDatum {
    Bad(BadDatum),
    /// An exception of the object's own code, and the path of the field that was read.
    Raised(PyErr, String),
}

impl From<PyErr> for NoDatum {
    fn from(error: PyErr) -> Self {
        Self::Raised(error, String::new())
    }
}

type Read<T = Datum> = Result<T, NoDatum>;

/// Types of Python's library, imported once.
struct Types {
    enumeration: Py<PyAny>,
    datetime: Py<PyAny>,
    date: Py<PyAny>,
    time: Py<PyAny>,
    timedelta: Py<PyAny>,
    decimal: Py<PyAny>,
    uuid: Py<PyAny>,
    epoch: Py<PyAny>,
    utc_epoch: Py<PyAny>,
}

static TYPES: PyOnceLock<Types> = PyOnceLock::new();

impl Types {
    fn of(py: Python<'_>) -> PyResult<&Self> {
        TYPES.get_or_try_init(py, || {
            let datetime = py.import("datetime")?;
            let class = datetime.getattr("datetime")?;
            let utc = datetime.getattr("timezone")?.getattr("utc")?;
            Ok(Self {
                enumeration: py.import("enum")?.getattr("Enum")?.unbind(),
                epoch: class.call1((1970, 1, 1))?.unbind(),
                utc_epoch: class.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind(),
                datetime: class.unbind(),
                date: datetime.getattr("date")?.unbind(),
                time: datetime.getattr("time")?.unbind(),
                timedelta: datetime.getattr("timedelta")?.unbind(),
                decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
                uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
            })
        })
    }
}

/// The value of an object.
pub(crate) fn datum(given: &Bound<'_, PyAny>, depth: usize) -> Read {
    if depth > MAX_DEPTH {
        return Err(bad(format!("values are nested deeper than {MAX_DEPTH}")));
    }
    if given.is_none() {
        return Ok(Datum::Null);
    }
    if let Ok(text) = given.cast_exact::<PyString>() {
        return text_of(text);
    }
    if let Ok(number) = given.cast_exact::<PyInt>() {
        return int(number);
    }
    if let Ok(number) = given.cast_exact::<PyFloat>() {
        return Ok(Datum::Float(number.extract()?));
    }
    if let Ok(value) = given.cast::<PyBool>() {
        return Ok(Datum::Boolean(value.is_true()));
    }
    if let Ok(bytes) = given.cast_exact::<PyBytes>() {
        return Ok(Datum::Bytes(bytes.as_bytes().into()));
    }
    if let Ok(dict) = given.cast_exact::<PyDict>() {
        // All of them at first: code of the values' own may change the dict.
        let entries: Vec<_> = dict.iter().collect();
        return pairs(entries.len(), entries.into_iter().map(Ok), depth);
    }
    if let Ok(list) = given.cast_exact::<PyList>() {
        return items(list.iter().map(Ok), depth);
    }
    other(given, depth)
}

fn other(given: &Bound<'_, PyAny>, depth: usize) -> Read {
    let types = Types::of(given.py())?;
    let is = |class: &Py<PyAny>| given.is_instance(class.bind(given.py()));
    if is(&types.enumeration)? {
        let name: String = given.getattr("name")?.extract()?;
        let value = datum(&given.getattr("value")?, depth + 1)?;
        return Ok(Datum::Enum(name.into(), value.into()));
    }
    if is(&types.datetime)? {
        return datetime(given, types);
    }
    if is(&types.date)? {
        let days: i32 = given.call_method0("toordinal")?.extract()?;
        return Ok(Datum::Date(days - DAYS_TO_1970));
    }
    if is(&types.time)? {
        if !given.getattr("tzinfo")?.is_none() {
            return Err(bad("a time with a zone, which would be lost; give the time without it"));
        }
        let part = |name| given.getattr(name)?.extract::<i64>();
        let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
        return Ok(Datum::Time(seconds * 1_000_000 + part("microsecond")?));
    }
    if is(&types.timedelta)? {
        check_nanoseconds(given, &types.timedelta, "nanoseconds")?;
        return Ok(Datum::Duration(micros(given)?));
    }
    if is(&types.decimal)? {
        let text = given.str()?;
        return decimal(&text.to_string_lossy()).ok_or_else(|| bad("a Decimal that is no number of 38 digits"));
    }
    if is(&types.uuid)? {
        return Ok(Datum::Uuid(given.getattr("bytes")?.extract()?));
    }
    if let Some(names) = field_names(given)? {
        let mut fields = Vec::with_capacity(names.len());
        for name in names.iter() {
            let text = key(&name)?;
            let value = given.getattr(name.cast::<PyString>().map_err(PyErr::from)?);
            let value = value.map_err(|error| NoDatum::from(error).within(&text))?;
            fields.push((text.clone(), datum(&value, depth + 1).map_err(|no| no.within(&text))?));
        }
        return Ok(Datum::Fields(fields));
    }
    derived(given, depth)
}

/// The value of a subclass of one of Python's types, and of other libraries' scalars.
fn derived(given: &Bound<'_, PyAny>, depth: usize) -> Read {
    if let Ok(text) = given.cast::<PyString>() {
        return text_of(text);
    }
    if let Ok(number) = given.cast::<PyInt>() {
        return int(number);
    }
    if let Ok(number) = given.cast::<PyFloat>() {
        return Ok(Datum::Float(number.extract()?));
    }
    if let Ok(mapping) = given.cast::<PyMapping>() {
        let entries = mapping.items()?;
        let pairs_of = entries.iter().map(|pair| pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>());
        return pairs(entries.len(), pairs_of, depth);
    }
    if let Ok(tuple) = given.cast::<PyTuple>() {
        return items(tuple.iter().map(Ok), depth);
    }
    if given.cast::<PyList>().is_ok() {
        return items(given.try_iter()?, depth);
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(given) {
        return Ok(Datum::Bytes(buffer.to_vec(given.py())?.into()));
    }
    // A scalar of numpy's.
    if given.hasattr("dtype")? && given.hasattr("item")? && given.getattr("ndim")?.extract::<usize>()? == 0 {
        let item = given.call_method0("item")?;
        let kind = given.getattr("dtype")?.getattr_opt("kind")?;
        let is_time = kind.is_some_and(|kind| kind.extract::<String>().is_ok_and(|kind| kind == "M" || kind == "m"));
        if is_time && item.is_instance_of::<PyInt>() {
            return Err(bad(
                "a time of numpy with a unit that datetime does not have; convert it, as by .astype('datetime64[us]')",
            ));
        }
        // Numbers that Python has no type for are their own items.
        if !item.get_type().is(given.get_type()) {
            return datum(&item, depth + 1);
        }
    }
    let kind = given.get_type().fully_qualified_name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Err(bad(format!(
        "an object of {kind}; expected a dict, a dataclass, a named tuple or another object with named fields, a list, \
         or a value of the field's type"
    )))
}

/// The names of the fields of a dataclass, a named tuple, or an object of attrs, pydantic or msgspec.
fn field_names<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
    let class: Bound<'py, PyType> = given.get_type();
    if let Some(fields) = class.getattr_opt("__dataclass_fields__")?
        && let Ok(fields) = fields.cast::<PyDict>()
    {
        let names = PyList::empty(given.py());
        for (name, field) in fields {
            // Class variables are among them, and arguments of the constructor alone.
            if field.getattr("_field_type")?.getattr("name")?.eq("_FIELD")? {
                names.append(name)?;
            }
        }
        return Ok(Some(names));
    }
    if let Some(fields) = class.getattr_opt("__pydantic_fields__")?
        && let Ok(fields) = fields.cast::<PyDict>()
    {
        return Ok(Some(fields.keys()));
    }
    for name in ["_fields", "__struct_fields__"] {
        if let Some(fields) = class.getattr_opt(name)?
            && let Ok(fields) = fields.cast::<PyTuple>()
        {
            return Ok(Some(fields.to_list()));
        }
    }
    let Some(fields) = class.getattr_opt("__attrs_attrs__")? else { return Ok(None) };
    let names = PyList::empty(given.py());
    for field in fields.try_iter()? {
        names.append(field?.getattr("name")?)?;
    }
    Ok(Some(names))
}

fn pairs<'py>(
    length: usize,
    given: impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>,
    depth: usize,
) -> Read {
    let (mut fields, mut entries) = (Vec::with_capacity(length), Vec::new());
    for pair in given {
        let (name, value) = pair?;
        if name.cast::<PyString>().is_ok() {
            let text = key(&name)?;
            let value = datum(&value, depth + 1).map_err(|no| no.within(&text))?;
            fields.push((text, value));
        } else {
            let value = datum(&value, depth + 1).map_err(|no| no.within("[...]"))?;
            entries.push((datum(&name, depth + 1)?, value));
        }
    }
    if entries.is_empty() {
        return Ok(Datum::Fields(fields));
    }
    entries.extend(fields.into_iter().map(|(name, value)| (Datum::Text(name), value)));
    Ok(Datum::Entries(entries))
}

fn items<'py>(given: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>, depth: usize) -> Read {
    let items =
        given.enumerate().map(|(index, item)| datum(&item?, depth + 1).map_err(|no| no.within(&format!("[{index}]"))));
    items.collect::<Read<Vec<Datum>>>().map(Datum::List)
}

fn key(name: &Bound<'_, PyAny>) -> Read<Box<str>> {
    match text_of(name.cast::<PyString>().map_err(PyErr::from)?)? {
        Datum::Text(text) => Ok(text),
        _ => Ok(Box::default()),
    }
}

fn text_of(text: &Bound<'_, PyString>) -> Read {
    let read: PyResult<Cow<'_, str>> = text.to_cow();
    read.map(|text| Datum::Text(text.into())).map_err(|error| {
        put_off(text.py(), error);
        bad("a str that cannot be written as UTF-8; give bytes")
    })
}

fn int(number: &Bound<'_, PyInt>) -> Read {
    if let Ok(small) = number.extract::<i64>() {
        return Ok(Datum::Int(small.into()));
    }
    let wide = number.extract::<i128>();
    wide.map(Datum::Int).map_err(|_| bad("an int that has more than 128 bits"))
}

fn datetime(given: &Bound<'_, PyAny>, types: &Types) -> Read {
    let py = given.py();
    let is_local = given.call_method0("utcoffset")?.is_none();
    check_nanoseconds(given, &types.datetime, "nanosecond")?;
    let epoch = if is_local { &types.epoch } else { &types.utc_epoch };
    // Without its zone: that of a local time is one without an offset.
    let given = if is_local {
        let zone = PyDict::new(py);
        zone.set_item("tzinfo", py.None())?;
        given.call_method("replace", (), Some(&zone))?
    } else {
        given.clone()
    };
    let micros = micros(&given.sub(epoch.bind(py))?)?;
    Ok(if is_local { Datum::LocalTimestamp(micros) } else { Datum::Timestamp(micros) })
}

/// Refuses nanoseconds, which subclasses such as those of pandas have.
fn check_nanoseconds(given: &Bound<'_, PyAny>, class: &Py<PyAny>, name: &str) -> Read<()> {
    if given.get_type().is(class.bind(given.py())) {
        return Ok(());
    }
    match given.getattr_opt(name)? {
        Some(nanoseconds) if nanoseconds.is_truthy()? => Err(bad("is more precise than microseconds; round it first")),
        _ => Ok(()),
    }
}

/// Microseconds of a `timedelta`.
fn micros(given: &Bound<'_, PyAny>) -> Read<i64> {
    let part = |name| given.getattr(name)?.extract::<i64>();
    let (days, seconds, rest) = (part("days")?, part("seconds")?, part("microseconds")?);
    let seconds = days.checked_mul(86_400).and_then(|of_days| of_days.checked_add(seconds));
    let micros = seconds.and_then(|all| all.checked_mul(1_000_000)).and_then(|all| all.checked_add(rest));
    micros.ok_or_else(|| bad("a timedelta of more microseconds than 64 bits hold"))
}

/// Digits and places of a decimal's text, such as `-1.50` and `1E+3`.
fn decimal(text: &str) -> Option<Datum> {
    let (number, exponent) = text.split_once(['E', 'e']).unwrap_or((text, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    if places >= 0 {
        return Some(Datum::Decimal(digits, places));
    }
    Some(Datum::Decimal(digits.checked_mul(10_i128.checked_pow(places.unsigned_abs())?)?, 0))
}

#[cold]
fn bad(reason: impl Into<String>) -> NoDatum {
    NoDatum::Bad(BadDatum { path: String::new(), reason: reason.into() })
}

impl NoDatum {
    #[cold]
    fn within(self, place: &str) -> Self {
        let joined = |path: String| {
            let joint = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            format!("{place}{joint}{path}")
        };
        match self {
            Self::Bad(BadDatum { path, reason }) => Self::Bad(BadDatum { path: joined(path), reason }),
            Self::Raised(error, path) => Self::Raised(error, joined(path)),
        }
    }

    /// An exception of the object's own code, or the place of what is no value.
    pub(crate) fn bad(self, py: Python<'_>) -> PyResult<BadDatum> {
        match self {
            Self::Bad(bad) => Ok(bad),
            // Ctrl-C and the like are the program's.
            Self::Raised(error, _) if !error.is_instance_of::<PyException>(py) => Err(error),
            Self::Raised(error, path) => {
                let reason = format!("reading it raised {error}");
                Ok(BadDatum { path, reason })
            }
        }
    }
}
