//! Metrics that users register with a client: their functions are called at a push, on threads of their own.

use std::sync::Arc;

use monedula_client::telemetry::{MetricId, RegisteredKind, RegisteredMetric, RegisteredMetrics};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::interpreter::attaching::attached;
use crate::runtime::Own;

/// The registered metrics of one client, which makes it.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct MetricRegistry {
    metrics: Own<Arc<RegisteredMetrics>>,
}

impl MetricRegistry {
    pub(crate) fn of(metrics: &Arc<RegisteredMetrics>) -> Self {
        Self { metrics: Own::new(metrics.clone()) }
    }
}

#[pymethods]
impl MetricRegistry {
    /// Adds a metric. Returns false if the client is closed.
    fn register(
        &self,
        name: String,
        attributes: Vec<(String, String)>,
        read: Py<PyAny>,
        is_counter: bool,
        unit: String,
    ) -> PyResult<bool> {
        let kind = if is_counter { RegisteredKind::Counter } else { RegisteredKind::Gauge };
        let read = move || {
            let ended = || Err("the interpreter ends".to_owned());
            attached(|py| value_of(py, &read)).unwrap_or_else(ended)
        };
        let id = MetricId { name, attributes };
        Ok(self.metrics.get()?.register(RegisteredMetric::new(id, kind, unit, Box::new(read))))
    }

    fn unregister(&self, name: String, attributes: Vec<(String, String)>) -> PyResult<bool> {
        Ok(self.metrics.get()?.unregister(&MetricId { name, attributes }))
    }
}

fn value_of(py: Python<'_>, read: &Py<PyAny>) -> Result<f64, String> {
    let value = read.bind(py).call0().map_err(|error| format!("its function raised {error}"))?;
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(py) {
            return "its function returned a number that is too large for a float".to_owned();
        }
        let kind = value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        format!("its function returned {kind}, not a number")
    })
}
