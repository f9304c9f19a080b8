//! Arrays out of Arrow's C interface. Columns of nulls alone are taken as every library writes them, and those of
//! extension types by their meaning.

use std::ffi::CStr;
use std::ptr::addr_of_mut;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};

use crate::arrow::extensions::Extension;

pub(crate) struct Arrays {
    stream: FFI_ArrowArrayStream,
    exported: DataType,
    meant: DataType,
}

impl Arrays {
    /// # Errors
    /// A stream that somebody has read already, or whose type is none that is known here.
    pub(crate) fn try_new(mut stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        if stream.release().is_none() {
            return Err(ArrowError::CDataInterface("somebody has read this stream already".to_owned()));
        }
        let mut schema = FFI_ArrowSchema::empty();
        let Some(get_schema) = stream.get_schema() else { return Err(incomplete()) };
        // SAFETY: the callback is called with its own stream, which is not released, and an empty struct to fill.
        let code = unsafe { get_schema(addr_of_mut!(stream), addr_of_mut!(schema)) };
        if code != 0 {
            return Err(failed(&mut stream, code));
        }
        let exported = type_of(&schema)?;
        let meant = meant(&exported)?;
        Ok(Self { stream, exported, meant })
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.meant
    }
}

impl Iterator for Arrays {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut array = FFI_ArrowArray::empty();
        let Some(get_next) = self.stream.get_next() else { return Some(Err(incomplete())) };
        // SAFETY: as above.
        let code = unsafe { get_next(addr_of_mut!(self.stream), addr_of_mut!(array)) };
        if code != 0 {
            return Some(Err(failed(&mut self.stream, code)));
        }
        if array.is_released() {
            return None;
        }
        // SAFETY: the arrays of a stream have the type of its schema.
        Some(unsafe { of_type(array, &self.exported, &self.meant) })
    }
}

/// Deepest nesting of a type. Readers of types recurse: a few thousand levels overflow a thread's stack, and end the
/// process.
const MAX_LEVELS: usize = 256;

/// The type that a schema describes.
///
/// # Errors
/// One that is nested too deep, or none that is known here.
pub(crate) fn type_of(schema: &FFI_ArrowSchema) -> Result<DataType, ArrowError> {
    check_levels(schema)?;
    DataType::try_from(schema)
}

/// # Errors
/// A type that is nested too deep.
pub(crate) fn check_levels(schema: &FFI_ArrowSchema) -> Result<(), ArrowError> {
    if is_within(schema, MAX_LEVELS) {
        return Ok(());
    }
    Err(ArrowError::InvalidArgumentError(format!("types are nested deeper than {MAX_LEVELS}")))
}

fn is_within(schema: &FFI_ArrowSchema, levels: usize) -> bool {
    levels > 0 && schema.children().chain(schema.dictionary()).all(|inner| is_within(inner, levels - 1))
}

fn incomplete() -> ArrowError {
    ArrowError::CDataInterface("the stream lacks one of its functions".to_owned())
}

/// The error of a stream, in the words of the library that writes it.
fn failed(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    let text = stream.get_last_error().and_then(|get_last_error| {
        // SAFETY: the callback is called with its own stream, after a function of it failed. What it returns is null,
        // or a text that is valid until the next call.
        unsafe {
            let text = get_last_error(addr_of_mut!(*stream));
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    });
    let text = text.filter(|text| !text.is_empty());
    ArrowError::CDataInterface(text.unwrap_or_else(|| format!("the stream failed with code {code}, and says no more")))
}

/// The same type, with a plain type in place of each extension type that has one of the same meaning.
///
/// # Errors
/// An extension type that is not known.
pub(crate) fn meant(exported: &DataType) -> Result<DataType, ArrowError> {
    meant_below(exported, "").map_err(ArrowError::InvalidArgumentError)
}

fn meant_below(exported: &DataType, path: &str) -> Result<DataType, String> {
    let children = children(exported).into_iter().map(|child| {
        let name = child.name();
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(extension) = Extension::of(&child).map_err(|reason| format!("{path}: {reason}"))? {
            return Ok(Field::new(name, extension.plain(), child.is_nullable()));
        }
        let data_type = meant_below(child.data_type(), &path)?;
        Ok(child.with_data_type(data_type))
    });
    Ok(with_children(exported, children.collect::<Result<Vec<_>, String>>()?.into_iter()))
}

/// An exported array, as the type that is meant.
///
/// # Safety
/// `array` must have the type `exported`.
pub(crate) unsafe fn of_type(
    array: FFI_ArrowArray,
    exported: &DataType,
    meant: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let plain = without_nulls(exported);
    // SAFETY: the caller has `array` of the type `exported`, from which `plain` differs in nulls alone. Their arrays
    // have no buffer by the specification, and one by some libraries: a struct without fields has no buffer but that of
    // its nulls, which may be missing.
    let data = unsafe { from_ffi_and_data_type(array, plain)? };
    Ok(make_array(as_meant(as_type(data, exported)?, meant)?))
}

/// The same type, with structs without fields in place of nulls alone.
fn without_nulls(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Null => DataType::Struct(Fields::empty()),
        other => {
            let children = children(other).into_iter();
            with_children(other, children.map(|child| child.clone().with_data_type(without_nulls(child.data_type()))))
        }
    }
}

/// The same array with this type, which has nulls alone where the array has structs without fields.
fn as_type(data: ArrayData, data_type: &DataType) -> Result<ArrayData, ArrowError> {
    if data.data_type() == data_type {
        return Ok(data);
    }
    if matches!(data_type, DataType::Null) {
        return Ok(ArrayData::new_null(&DataType::Null, data.len()));
    }
    let types = children(data_type);
    let child_data = data.child_data().iter().cloned().zip(&types);
    let child_data = child_data.map(|(child, field)| as_type(child, field.data_type())).collect::<Result<_, _>>()?;
    let builder = data.into_builder().data_type(data_type.clone()).child_data(child_data);
    // SAFETY: only children of nulls have changed, and these have as many rows as before.
    unsafe { builder.skip_validation(true) }.build()
}

/// The same array with this type, which has plain types where the array has extension types.
fn as_meant(data: ArrayData, meant: &DataType) -> Result<ArrayData, ArrowError> {
    if data.data_type() == meant {
        return Ok(data);
    }
    let (given, wanted) = (children(data.data_type()), children(meant));
    let mut child_data = Vec::with_capacity(given.len());
    for ((child, given), wanted) in data.child_data().iter().cloned().zip(&given).zip(&wanted) {
        let within = |reason| ArrowError::InvalidArgumentError(format!("{}: {reason}", given.name()));
        child_data.push(match Extension::of(given).map_err(within)? {
            Some(extension) => extension.values(&make_array(child)).map_err(within)?.to_data(),
            None => as_meant(child, wanted.data_type())?,
        });
    }
    let builder = data.into_builder().data_type(meant.clone()).child_data(child_data);
    // SAFETY: children of extension types have become others with as many rows.
    unsafe { builder.skip_validation(true) }.build()
}

/// The fields of an array's children. That of a dictionary's values has no name.
fn children(data_type: &DataType) -> Vec<Field> {
    let fields: Vec<&FieldRef> = match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field],
        DataType::RunEndEncoded(ends, values) => vec![ends, values],
        DataType::Dictionary(_, values) => return vec![Field::new("", values.as_ref().clone(), true)],
        _ => Vec::new(),
    };
    fields.into_iter().map(|field| field.as_ref().clone()).collect()
}

/// The same type with other children.
fn with_children(data_type: &DataType, mut children: impl Iterator<Item = Field>) -> DataType {
    if let DataType::Struct(_) = data_type {
        return DataType::Struct(children.collect());
    }
    let Some(first) = children.next().map(FieldRef::new) else { return data_type.clone() };
    match (data_type, children.next()) {
        (DataType::List(_), _) => DataType::List(first),
        (DataType::LargeList(_), _) => DataType::LargeList(first),
        (DataType::ListView(_), _) => DataType::ListView(first),
        (DataType::LargeListView(_), _) => DataType::LargeListView(first),
        (DataType::FixedSizeList(_, size), _) => DataType::FixedSizeList(first, *size),
        (DataType::Map(_, is_sorted), _) => DataType::Map(first, *is_sorted),
        (DataType::Dictionary(keys, _), _) => DataType::Dictionary(keys.clone(), Box::new(first.data_type().clone())),
        (DataType::RunEndEncoded(..), Some(values)) => DataType::RunEndEncoded(first, values.into()),
        _ => data_type.clone(),
    }
}
