//! Errors of the client as the exceptions that `monedula.errors` defines.

use monedula_client::error::ClientError;
use monedula_engine::fetch::Fault;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The exception for `error`, with its attributes.
pub(crate) fn to_py(py: Python<'_>, error: ClientError) -> PyErr {
    if matches!(error, ClientError::OutOfMemory { .. }) {
        return PyMemoryError::new_err(error.to_string());
    }
    build(py, &error).unwrap_or_else(|failure| failure)
}

fn build(py: Python<'_>, error: &ClientError) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    if let ClientError::Partition(fault) = error {
        let partition = fault.partition();
        details.set_item("topic", &*partition.topic)?;
        details.set_item("partition", partition.partition)?;
        details.set_item("code", fault.code().name())?;
        if let Some(offset) = offset_of(fault) {
            details.set_item("offset", offset)?;
        }
        if let Fault::OffsetOutOfRange { log_start, log_end, .. } = fault {
            details.set_item("log_start_offset", log_start)?;
            details.set_item("log_end_offset", log_end)?;
        }
    }
    match error {
        ClientError::Decode { partition, error } => {
            details.set_item("topic", &*partition.topic)?;
            details.set_item("partition", partition.partition)?;
            details.set_item("offset", error.offset)?;
            details.set_item("next_offset", error.next_offset)?;
        }
        ClientError::Broker { code, .. } => {
            details.set_item("code", code.name())?;
            details.set_item("retriable", code.is_retriable())?;
        }
        ClientError::GroupDenied { .. } => details.set_item("code", "GROUP_AUTHORIZATION_FAILED")?,
        ClientError::GroupInUse { code, .. } => details.set_item("code", code.name())?,
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => details.set_item("retriable", true)?,
        ClientError::Config(error) => details.set_item("key", &error.key)?,
        _ => {}
    }
    exception(py, class_of(error), error.to_string(), &details)
}

fn class_of(error: &ClientError) -> &'static str {
    match error {
        ClientError::Config(_) => "ConfigError",
        ClientError::Argument(_) => "ArgumentError",
        ClientError::Unreachable { .. } => "BrokerConnectionError",
        ClientError::TimedOut { .. } => "KafkaTimeoutError",
        ClientError::Partition(fault) => match fault {
            Fault::UnknownTopicOrPartition { .. } => "UnknownTopicError",
            Fault::TopicRecreated { .. } => "TopicRecreatedError",
            Fault::TopicDenied { .. } => "AuthorizationError",
            Fault::OffsetOutOfRange { .. } | Fault::NoOffset { .. } => "OffsetOutOfRangeError",
            Fault::LogTruncated { .. } => "LogTruncatedError",
            Fault::Corrupt { .. } => "CorruptRecordError",
            _ => "BrokerError",
        },
        ClientError::GroupDenied { .. } => "GroupAuthorizationError",
        ClientError::GroupInUse { .. } => "GroupInUseError",
        ClientError::Decode { .. } => "CorruptRecordError",
        ClientError::UnsupportedVersion { .. } => "UnsupportedVersionError",
        ClientError::Closed => "ClosedError",
        ClientError::WokenUp => "WakeupError",
        _ => "BrokerError",
    }
}

fn offset_of(fault: &Fault) -> Option<i64> {
    match fault {
        Fault::OffsetOutOfRange { offset, .. } | Fault::LogTruncated { offset, .. } | Fault::Corrupt { offset, .. } => {
            Some(*offset)
        }
        _ => None,
    }
}

/// What a forked child gets from anything that its parent made.
pub(crate) fn fork_error() -> PyErr {
    Python::attach(|py| {
        let message = "this object was made before a fork: its connections and threads belong to the parent process. \
                       Make a new one in the child";
        exception(py, "ForkError", message.into(), &PyDict::new(py)).unwrap_or_else(|failure| failure)
    })
}

/// A wrong argument.
pub(crate) fn argument_error(py: Python<'_>, message: String) -> PyErr {
    to_py(py, ClientError::Argument(message))
}

pub(crate) fn exception(py: Python<'_>, class: &str, message: String, details: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let class = py.import("monedula.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call(PyTuple::new(py, [message])?, Some(details))?))
}
