//! Rows as lines of text: the outputs `json` and `csv` of `monedula consume`.

mod column;
mod csv;
mod form;
mod json;
mod second_text;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use self::column::Column;
use self::csv::Csv;
use self::form::Form;
use self::json::Json;
use crate::arrow::capsule;
use crate::batch::Batch;

/// A format of lines, with what it keeps from one line for the next.
trait Format: Default {
    /// The names of the columns in the order in which they are written.
    fn names(schema: &Schema) -> impl Iterator<Item = &str>;

    fn write_row(&mut self, columns: &[Column<'_>], row: usize, out: &mut Vec<u8>);
}

/// Writes rows of a batch, or of Arrow data with its columns, as JSON, one object per line, in UTF-8. The rows ascend.
#[pyfunction]
pub(crate) fn json_lines<'py>(
    batch: &Bound<'py, PyAny>,
    rows: Vec<usize>,
    key_form: &str,
    value_form: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    lines::<Json>(batch, &rows, key_form, value_form)
}

/// As [`json_lines`], as CSV, without its line of names.
#[pyfunction]
pub(crate) fn csv_lines<'py>(
    batch: &Bound<'py, PyAny>,
    rows: Vec<usize>,
    key_form: &str,
    value_form: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    lines::<Csv>(batch, &rows, key_form, value_form)
}

fn lines<'py, F: Format>(
    batch: &Bound<'py, PyAny>,
    rows: &[usize],
    key_form: &str,
    value_form: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = batch.py();
    let forms = (Form::named(py, key_form)?, Form::named(py, value_form)?);
    let batches = match batch.cast::<Batch>() {
        Ok(batch) => vec![batch.get().0.columns.record_batch.clone()],
        Err(_) => {
            let imported: Result<_, _> = capsule::import(batch)?.collect();
            imported.map_err(|error| capsule::unreadable(py, &error))?
        }
    };
    let lines = py.detach(|| {
        let mut out = Vec::with_capacity(rows.len() * 160);
        let mut format = F::default();
        let mut first = 0;
        for batch in &batches {
            let columns = columns_of::<F>(batch, forms);
            let its = rows.iter().filter_map(|row| row.checked_sub(first)).filter(|&row| row < batch.num_rows());
            its.for_each(|row| format.write_row(&columns, row, &mut out));
            first += batch.num_rows();
        }
        out
    });
    Ok(PyBytes::new(py, &lines))
}

fn columns_of<F: Format>(batch: &RecordBatch, (key, value): (Form, Form)) -> Vec<Column<'_>> {
    let column = |name| Some(Column::new(name, batch.column_by_name(name)?, if name == "key" { key } else { value }));
    F::names(batch.schema_ref()).filter_map(column).collect()
}
