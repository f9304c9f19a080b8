//! Timeouts from Python, in seconds.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::argument_error;
use crate::producer::short;

/// Longest timeout, ten years: practically endless, but still addable to the current time.
const FAR_AWAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A time as Python has it: seconds since the Unix epoch.
pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The argument `timeout`, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) f64);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = given.py();
        given.extract::<f64>().map(Self).map_err(|error| {
            let is_no_number = error.is_instance_of::<PyTypeError>(py)
                || error.is_instance_of::<PyValueError>(py)
                || error.is_instance_of::<PyOverflowError>(py);
            if !is_no_number {
                return error;
            }
            argument_error(py, format!("timeout={}: expected seconds, a number such as 1.5", short(&given)))
        })
    }
}

impl Seconds {
    pub(crate) fn deadline(self, py: Python<'_>) -> PyResult<Instant> {
        Ok(Instant::now() + self.duration(py)?)
    }

    pub(crate) fn duration(self, py: Python<'_>) -> PyResult<Duration> {
        seconds(py, "timeout", self.0)
    }
}

pub(crate) fn seconds(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    match Duration::try_from_secs_f64(seconds.min(FAR_AWAY.as_secs_f64())) {
        // NaN has to be checked here, because `min` of NaN and a number is the number.
        Ok(duration) if !seconds.is_nan() => Ok(duration),
        _ => Err(argument_error(py, format!("{name}={seconds}: expected seconds, 0 or more"))),
    }
}
