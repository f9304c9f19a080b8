//! Converts errors of the client to the exceptions of `monedula.errors`.

use monedula_client::config::ConfigError;
use monedula_client::error::{ClientError, Refused};
use monedula_columns::WalkErrorKind;
use monedula_engine::assign::AssignError;
use monedula_engine::fetch::Fault;
use monedula_engine::group::GroupError;
use monedula_engine::transaction::TransactionError;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::argument::BadArgument;
use crate::producer;
use crate::runtime::slow_down_at_the_end;

/// The exception for `error`, with its attributes; a `MemoryError` if there was no memory.
#[cold]
pub(crate) fn to_py(py: Python<'_>, error: ClientError) -> PyErr {
    if matches!(error, ClientError::OutOfMemory { .. } | ClientError::NoMemory(_)) {
        return PyMemoryError::new_err(error.to_string());
    }
    if is_closed(&error) {
        slow_down_at_the_end(py);
    }
    build(py, &error).unwrap_or_else(|failure| failure)
}

/// The error itself, without whose it is.
fn plain(error: &ClientError) -> &ClientError {
    match error {
        ClientError::Read(error) | ClientError::ShareDecode { error, .. } => error,
        error => error,
    }
}

fn is_closed(error: &ClientError) -> bool {
    let error = plain(error);
    matches!(error, ClientError::Closed | ClientError::AdminClosed | ClientError::ProducerClosed)
}

fn build(py: Python<'_>, error: &ClientError) -> PyResult<PyErr> {
    let (details, message) = (PyDict::new(py), error.to_string());
    if let Some(hint) = error.hint() {
        details.set_item("hint", hint)?;
    }
    let error = plain(error);
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
            if let WalkErrorKind::Unavailable { column, reason } = &error.kind {
                details.set_item("column", column)?;
                details.set_item("reason", reason)?;
                details.set_item("retriable", true)?;
            }
            if let WalkErrorKind::BadValue { column, bad } = &error.kind {
                details.set_item("column", column)?;
                details.set_item("path", &bad.path)?;
                details.set_item("reason", &bad.reason)?;
            }
        }
        ClientError::Broker { code, .. } => {
            details.set_item("code", code.name())?;
            details.set_item("retriable", code.is_retriable())?;
        }
        ClientError::Refused(error) => refused_details(error, &details)?,
        ClientError::GroupDenied { .. } => details.set_item("code", "GROUP_AUTHORIZATION_FAILED")?,
        ClientError::GroupInUse { group, code } => {
            details.set_item("group", group)?;
            details.set_item("code", code.name())?;
        }
        ClientError::Unreachable { .. } | ClientError::NoThread(_) => details.set_item("retriable", true)?,
        ClientError::TimedOut { last_error, .. } => {
            details.set_item("retriable", true)?;
            details.set_item("last_error", last_error)?;
        }
        ClientError::RegistryUnavailable { last_error, .. } => {
            details.set_item("retriable", true)?;
            details.set_item("reason", last_error.as_deref().unwrap_or("there is no answer yet"))?;
        }
        ClientError::Unavailable { failing_for, last_error, .. } => {
            details.set_item("retriable", true)?;
            details.set_item("failing_for", failing_for.as_secs_f64())?;
            details.set_item("last_error", last_error)?;
        }
        ClientError::Authentication(error) => {
            details.set_item("broker", &error.broker)?;
            details.set_item("mechanism", &error.mechanism)?;
        }
        ClientError::Config(error) => details.set_item("key", &error.key)?,
        ClientError::AnswerTooLarge { .. } => details.set_item("key", "receive.message.max.bytes")?,
        ClientError::Group(error) => group_details(error, &details)?,
        ClientError::Transaction(error) => transaction_details(error, &details)?,
        _ => producer::set_details(error, &details)?,
    }
    exception(py, class_of(error), message, &details)
}

fn refused_details(error: &Refused, details: &Bound<'_, PyDict>) -> PyResult<()> {
    details.set_item("code", error.code.name())?;
    details.set_item("retriable", error.code.is_retriable())?;
    if let Some(topic) = &error.topic {
        details.set_item("topic", topic)?;
    }
    if let Some(partition) = error.partition {
        details.set_item("partition", partition)?;
    }
    if let Some(group) = &error.group {
        details.set_item("group", group)?;
    }
    Ok(())
}

fn class_of_refused(error: &Refused) -> &'static str {
    match error.code.name() {
        "TOPIC_ALREADY_EXISTS" => "TopicExistsError",
        "UNKNOWN_TOPIC_OR_PARTITION" | "UNKNOWN_TOPIC_ID" => "UnknownTopicError",
        "TOPIC_AUTHORIZATION_FAILED"
        | "CLUSTER_AUTHORIZATION_FAILED"
        | "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        | "DELEGATION_TOKEN_AUTHORIZATION_FAILED" => "AuthorizationError",
        "OFFSET_OUT_OF_RANGE" => "OffsetOutOfRangeError",
        "GROUP_ID_NOT_FOUND" => "GroupNotFoundError",
        "TRANSACTIONAL_ID_NOT_FOUND" => "TransactionalIdNotFoundError",
        "INVALID_PRODUCER_EPOCH" | "TRANSACTION_COORDINATOR_FENCED" => "TransactionError",
        _ if error.group.is_some() => "GroupError",
        _ => "BrokerError",
    }
}

fn group_details(error: &GroupError, details: &Bound<'_, PyDict>) -> PyResult<()> {
    let (group, code) = match error {
        GroupError::Denied { group } => (Some(group), Some("GROUP_AUTHORIZATION_FAILED")),
        GroupError::FencedInstance { group, instance } => {
            details.set_item("instance_id", instance)?;
            // The exception's class sets the code.
            (Some(group), None)
        }
        GroupError::InconsistentProtocol { group, .. } => (Some(group), Some("INCONSISTENT_GROUP_PROTOCOL")),
        GroupError::InvalidSessionTimeout { .. } => {
            details.set_item("key", "session.timeout.ms")?;
            (None, Some("INVALID_SESSION_TIMEOUT"))
        }
        GroupError::MaxPollExceeded { group, .. } => {
            details.set_item("retriable", true)?;
            (Some(group), None)
        }
        GroupError::Assign { group, error } => {
            if let AssignError::Failed { assignor, .. } | AssignError::Invalid { assignor, .. } = error {
                details.set_item("assignor", assignor)?;
            }
            (Some(group), None)
        }
        GroupError::Broker { group, code, .. } => {
            details.set_item("retriable", code.is_retriable())?;
            (Some(group), Some(code.name()))
        }
        GroupError::Call { group, .. } => (Some(group), None),
        GroupError::Unsupported { group, .. } | GroupError::NoShareGroups { group, .. } => {
            (Some(group), Some("UNSUPPORTED_VERSION"))
        }
        GroupError::NoShareGroup { group, .. } => (Some(group), Some("GROUP_ID_NOT_FOUND")),
        GroupError::UnsupportedAssignor { .. } => (None, Some("UNSUPPORTED_ASSIGNOR")),
        GroupError::InvalidRegex { .. } => (None, Some("INVALID_REGULAR_EXPRESSION")),
        GroupError::GroupFull { group, .. } => (Some(group), Some("GROUP_MAX_SIZE_REACHED")),
        GroupError::UnreleasedInstance { group, instance } => {
            details.set_item("instance_id", instance)?;
            (Some(group), Some("UNRELEASED_INSTANCE_ID"))
        }
        GroupError::TopicDenied { group, .. } => (Some(group), Some("TOPIC_AUTHORIZATION_FAILED")),
        GroupError::Heartbeat { group, code, .. } => {
            details.set_item("retriable", code.is_retriable())?;
            (Some(group), Some(code.name()))
        }
    };
    if let Some(group) = group {
        details.set_item("group", group)?;
    }
    if let Some(code) = code {
        details.set_item("code", code)?;
    }
    Ok(())
}

fn transaction_details(error: &TransactionError, details: &Bound<'_, PyDict>) -> PyResult<()> {
    match error {
        TransactionError::Fenced { code, .. } => details.set_item("code", code),
        TransactionError::Denied { code, .. } | TransactionError::Refused { code, .. } => {
            details.set_item("code", code.name())
        }
        TransactionError::TimedOut { last_error, .. } => {
            details.set_item("retriable", true)?;
            details.set_item("last_error", last_error)
        }
        _ => Ok(()),
    }
}

fn class_of(error: &ClientError) -> &'static str {
    match error {
        ClientError::Config(_) | ClientError::AnswerTooLarge { .. } => "ConfigError",
        ClientError::Argument(_) => "ArgumentError",
        ClientError::Unreachable { .. } => "BrokerConnectionError",
        ClientError::Authentication(_) => "AuthenticationError",
        ClientError::TimedOut { .. } => "KafkaTimeoutError",
        ClientError::Unavailable { .. } => "BrokersUnavailableError",
        ClientError::RegistryUnavailable { .. } => "SchemaRegistryError",
        ClientError::Partition(fault) => match fault {
            Fault::UnknownTopicOrPartition { .. } => "UnknownTopicError",
            Fault::TopicRecreated { .. } => "TopicRecreatedError",
            Fault::TopicDenied { .. } => "AuthorizationError",
            Fault::OffsetOutOfRange { .. } | Fault::NoOffset { .. } => "OffsetOutOfRangeError",
            Fault::LogTruncated { .. } => "LogTruncatedError",
            Fault::Corrupt { .. } => "CorruptRecordError",
            _ => "BrokerError",
        },
        ClientError::Refused(error) => class_of_refused(error),
        ClientError::GroupDenied { .. } => "GroupAuthorizationError",
        ClientError::GroupInUse { .. } => "GroupInUseError",
        ClientError::Group(error) => match error {
            GroupError::Denied { .. } => "GroupAuthorizationError",
            GroupError::FencedInstance { .. } => "FencedInstanceError",
            GroupError::InconsistentProtocol { .. } => "InconsistentGroupProtocolError",
            GroupError::InvalidSessionTimeout { .. } => "InvalidSessionTimeoutError",
            GroupError::MaxPollExceeded { .. } => "MaxPollExceededError",
            GroupError::Assign { .. } => "AssignorError",
            GroupError::Unsupported { .. } | GroupError::NoShareGroups { .. } => "UnsupportedGroupProtocolError",
            GroupError::UnsupportedAssignor { .. } => "UnsupportedAssignorError",
            GroupError::InvalidRegex { .. } => "InvalidPatternError",
            GroupError::UnreleasedInstance { .. } => "FencedInstanceError",
            GroupError::TopicDenied { .. } => "GroupAuthorizationError",
            GroupError::Broker { .. }
            | GroupError::Call { .. }
            | GroupError::GroupFull { .. }
            | GroupError::NoShareGroup { .. }
            | GroupError::Heartbeat { .. } => "GroupError",
        },
        ClientError::Transaction(error) => match error {
            TransactionError::Fenced { .. } => "ProducerFencedError",
            TransactionError::MustAbort { .. } => "TransactionAbortedError",
            TransactionError::TimedOut { .. } => "KafkaTimeoutError",
            _ => "TransactionError",
        },
        ClientError::Decode { error, .. } => match error.kind {
            WalkErrorKind::BadValue { .. } => "DecodeError",
            WalkErrorKind::Unavailable { .. } => "SchemaRegistryError",
            _ => "CorruptRecordError",
        },
        ClientError::UnsupportedVersion { .. } => "UnsupportedVersionError",
        ClientError::Closed | ClientError::AdminClosed => "ClosedError",
        ClientError::WokenUp => "WakeupError",
        ClientError::NoThread(_) => "NoThreadError",
        ClientError::Internal(_) => "KafkaError",
        _ => producer::class_of(error).unwrap_or("BrokerError"),
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

/// The error of any object of the parent process that a forked child uses.
pub(crate) fn fork_error() -> PyErr {
    Python::attach(|py| {
        let message = "this object was made before a fork: its connections and threads belong to the parent process. \
                       Make a new one in the child";
        exception(py, "ForkError", message.into(), &PyDict::new(py)).unwrap_or_else(|failure| failure)
    })
}

/// The error of a wait that the interpreter's exit ends.
pub(crate) fn exit_error(py: Python<'_>) -> PyErr {
    slow_down_at_the_end(py);
    let message = "the interpreter exits, and all clients have ended".to_owned();
    exception(py, "ClosedError", message, &PyDict::new(py)).unwrap_or_else(|failure| failure)
}

/// True if it is one of monedula's exceptions.
pub(crate) fn is_own(py: Python<'_>, error: &PyErr) -> bool {
    let class = py.import("monedula.errors").and_then(|errors| errors.getattr("KafkaError"));
    class.is_ok_and(|class| error.matches(py, class).unwrap_or_default())
}

pub(crate) fn argument_error(py: Python<'_>, message: String) -> PyErr {
    BadArgument::new(message).to_py(py)
}

/// A `SchemaRegistryError` that is about no record.
pub(crate) fn registry_error(py: Python<'_>, reason: String) -> PyErr {
    let details = PyDict::new(py);
    let error = details
        .set_item("reason", &reason)
        .and_then(|()| exception(py, "SchemaRegistryError", format!("the schema registry: {reason}"), &details));
    error.unwrap_or_else(|failure| failure)
}

/// A `SchemaRegistryError` about the schema that keys or values are written with; `column` says which.
pub(crate) fn registry_error_of(py: Python<'_>, column: &str, reason: &str) -> PyErr {
    let details = PyDict::new(py);
    let error = details
        .set_item("column", column)
        .and_then(|()| details.set_item("reason", reason))
        .and_then(|()| exception(py, "SchemaRegistryError", format!("{column}: {reason}"), &details));
    error.unwrap_or_else(|failure| failure)
}

pub(crate) fn config_error(py: Python<'_>, key: &str, message: String) -> PyErr {
    to_py(py, ConfigError { key: key.into(), message }.into())
}

pub(crate) fn exception(py: Python<'_>, class: &str, message: String, details: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let class = py.import("monedula.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((message,), Some(details))?))
}
