//! The rows of a batch that a decision is about: a mask, row numbers or a slice, in the form that Python gives them.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, downcast_integer_array};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PySlice, PyString};

use crate::argument::BadArgument;
use crate::arrow::capsule;

const EXPECTED: &str = "expected a mask (booleans, one for each row), row numbers, or a slice";

/// The rows that `rows` names, of a batch of so many; all if it is `None`.
pub(super) fn ranges(py: Python<'_>, rows: Option<&Bound<'_, PyAny>>, count: usize) -> PyResult<Vec<Range<usize>>> {
    let Some(rows) = rows.filter(|rows| !rows.is_none()) else { return Ok(joined((0..count).collect())) };
    if let Ok(slice) = rows.cast::<PySlice>() {
        return of_slice(slice, count);
    }
    if !rows.is_instance_of::<PyBool>()
        && rows.hasattr("__index__")?
        && let Ok(number) = rows.extract()
    {
        return of_numbers(py, &[number], count);
    }
    if rows.hasattr("__arrow_c_stream__")? || rows.hasattr("__arrow_c_array__")? {
        return of_arrays(py, &capsule::import_arrays(rows)?, count);
    }
    let wrong = || BadArgument::of("rows", EXPECTED).to_py(py);
    // Two dimensions would be read as one; keys, letters and bytes as row numbers.
    let is_list_of_rows = rows.getattr("ndim").map_or(Ok(true), |dimensions| dimensions.eq(1))?
        && !(rows.is_instance_of::<PyDict>() || rows.is_instance_of::<PyString>() || rows.is_instance_of::<PyBytes>());
    if !is_list_of_rows {
        return Err(wrong());
    }
    // numpy's arrays: their bytes are one boolean each.
    if let Ok(kind) = rows.getattr("dtype").and_then(|dtype| dtype.getattr("kind"))
        && kind.eq("b")?
    {
        let bytes = rows.call_method0("tobytes")?;
        let mask: Vec<bool> = bytes.cast::<PyBytes>()?.as_bytes().iter().map(|byte| *byte != 0).collect();
        return of_mask(py, &mask, count);
    }
    let items: Vec<Bound<'_, PyAny>> = rows.try_iter().map_err(|_| wrong())?.collect::<PyResult<_>>()?;
    let booleans = items.iter().filter(|item| item.is_instance_of::<PyBool>()).count();
    if booleans > 0 && booleans < items.len() {
        return Err(wrong());
    }
    if booleans > 0 {
        let mask = items.iter().map(|item| item.extract()).collect::<PyResult<Vec<bool>>>()?;
        return of_mask(py, &mask, count);
    }
    let numbers = items.iter().map(|item| item.extract::<i64>()).collect::<PyResult<Vec<i64>>>();
    of_numbers(py, &numbers.map_err(|_| wrong())?, count)
}

fn of_slice(slice: &Bound<'_, PySlice>, count: usize) -> PyResult<Vec<Range<usize>>> {
    let indices = slice.indices(isize::try_from(count).unwrap_or(isize::MAX))?;
    let rows = (0..indices.slicelength as isize).map(|index| (indices.start + index * indices.step) as usize);
    Ok(joined(rows.collect()))
}

fn of_mask(py: Python<'_>, mask: &[bool], count: usize) -> PyResult<Vec<Range<usize>>> {
    if mask.len() != count {
        let reason = format!("the mask has {} values, and the batch {count} rows", mask.len());
        return Err(BadArgument::of("rows", reason).to_py(py));
    }
    Ok(joined((0..count).filter(|row| mask[*row]).collect()))
}

/// Negative numbers count from the end.
fn of_numbers(py: Python<'_>, numbers: &[i64], count: usize) -> PyResult<Vec<Range<usize>>> {
    let rows = numbers.iter().map(|&number| {
        let row = if number < 0 { number + count as i64 } else { number };
        usize::try_from(row).ok().filter(|row| *row < count).ok_or(number)
    });
    match rows.collect::<Result<Vec<usize>, i64>>() {
        Ok(mut rows) => {
            rows.sort_unstable();
            match rows.windows(2).find(|pair| pair[0] == pair[1]) {
                None => Ok(joined(rows)),
                Some(pair) => {
                    let reason = "is named twice: a mask has booleans, such as of .astype(bool), and no 0 and 1";
                    Err(BadArgument::of("rows", format!("row {} {reason}", pair[0])).to_py(py))
                }
            }
        }
        Err(number) => Err(BadArgument::of("rows", format!("the batch has no row {number}: it has {count}")).to_py(py)),
    }
}

fn of_arrays(py: Python<'_>, arrays: &[ArrayRef], count: usize) -> PyResult<Vec<Range<usize>>> {
    let wrong = |reason: String| BadArgument::of("rows", reason).to_py(py);
    let nulls: usize = arrays.iter().map(|array| array.logical_null_count()).sum();
    if nulls > 0 {
        return Err(wrong(format!(
            "{nulls} values are null: say what becomes of these rows, such as by fill_null(False)"
        )));
    }
    if arrays.iter().all(|array| *array.data_type() == DataType::Boolean) {
        let masks = arrays.iter().flat_map(|array| {
            let mask: &BooleanArray = array.as_boolean();
            (0..mask.len()).map(|row| mask.value(row))
        });
        return of_mask(py, &masks.collect::<Vec<bool>>(), count);
    }
    let mut numbers = Vec::new();
    for array in arrays {
        downcast_integer_array!(
            array => numbers.extend(widened(array)),
            other => return Err(wrong(format!("{EXPECTED}, and no values of type {other}")))
        );
    }
    of_numbers(py, &numbers, count)
}

/// The values of an array of integers. Those beyond 63 bits are no row either way.
fn widened<T: ArrowPrimitiveType<Native: TryInto<i64>>>(array: &PrimitiveArray<T>) -> impl Iterator<Item = i64> {
    array.values().iter().map(|&number| number.try_into().unwrap_or(i64::MAX))
}

/// Rows as ranges. They are in order, or in the reverse one.
fn joined(mut rows: Vec<usize>) -> Vec<Range<usize>> {
    rows.sort_unstable();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for row in rows {
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}
