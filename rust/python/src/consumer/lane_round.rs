//! `LaneRound`: what one transaction of a run has.

use std::sync::Arc;

use monedula_engine::lanes::{Reading, RoundPart};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::part_rows::PartRows;
use super::values::{PyPartition, py_partition};

/// The finished rows of a transaction.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct LaneRound(pub(super) Vec<RoundPart<Arc<PartRows>>>);

#[pymethods]
impl LaneRound {
    /// The offsets to commit: `{(topic, partition): offset}`.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let offsets = PyDict::new(py);
        for part in &self.0 {
            if let Some(offset) = part.sought.or_else(|| part.payload.offset_after(part.end)) {
                offsets.set_item((&*part.partition.topic, part.partition.partition), offset)?;
            }
        }
        Ok(offsets)
    }

    /// What is written with these rows, in their order, for each call of a handler: the list given to `hold`, and the
    /// topic, partition and offset of the last record of the call.
    #[getter]
    fn written(&self, py: Python<'_>) -> Vec<(Py<PyAny>, String)> {
        let of_part = |part: &RoundPart<Arc<PartRows>>| {
            let name = |offset: Option<i64>| match offset {
                Some(offset) => format!("{} at offset {offset}", part.partition),
                None => part.partition.to_string(),
            };
            let written = part.payload.written(py, part).into_iter();
            written.map(|(written, offset)| (written, name(offset))).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_part).collect()
    }

    /// A partition that is not this consumer's any more: its next owner handles the records again.
    fn lost_partition(&self) -> Option<PyPartition> {
        let lost = self.0.iter().find(|part| part.payload.reading() == Reading::Lost)?;
        Some(py_partition(lost.partition.clone()))
    }
}
