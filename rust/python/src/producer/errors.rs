//! The classes of `monedula.errors` for errors of sending, and their attributes.

use monedula_client::error::ClientError;
use monedula_engine::TopicPartition;
use monedula_engine::produce::SendFault;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The class of an error that only producers raise; `None` for other errors.
pub(crate) fn class_of(error: &ClientError) -> Option<&'static str> {
    Some(match error {
        ClientError::BufferFull { .. } => "BufferFullError",
        ClientError::RecordTooLarge { .. } => "RecordTooLargeError",
        ClientError::RecordRefused { .. } => "InvalidRecordError",
        ClientError::UnknownTopic { .. } | ClientError::UnknownPartition { .. } => "UnknownTopicError",
        ClientError::ProducerClosed => "ClosedError",
        ClientError::Delivery(fault) => class_of_fault(fault),
        _ => return None,
    })
}

fn class_of_fault(fault: &SendFault) -> &'static str {
    match fault {
        SendFault::TimedOut { .. } => "DeliveryTimeoutError",
        SendFault::UnknownTopicOrPartition { .. } => "UnknownTopicError",
        SendFault::Refused { code, .. } => match code.name() {
            "MESSAGE_TOO_LARGE" | "RECORD_LIST_TOO_LARGE" => "RecordTooLargeError",
            "INVALID_RECORD" | "INVALID_TIMESTAMP" => "InvalidRecordError",
            "TOPIC_AUTHORIZATION_FAILED" => "AuthorizationError",
            _ => "BrokerError",
        },
        SendFault::Fenced { .. } => "ProducerFencedError",
        SendFault::Aborted | SendFault::TransactionFailed { .. } => "TransactionAbortedError",
        SendFault::Closed { .. } => "ClosedError",
        _ => "BrokerError",
    }
}

/// Sets the attributes of an error that only producers raise.
pub(crate) fn set_details(error: &ClientError, details: &Bound<'_, PyDict>) -> PyResult<()> {
    match error {
        ClientError::BufferFull { .. } => details.set_item("retriable", true),
        ClientError::RecordTooLarge { topic, .. } => details.set_item("topic", topic),
        ClientError::UnknownTopic { topic, .. } => details.set_item("topic", &**topic),
        ClientError::UnknownPartition { partition, .. } => set_partition(partition, details),
        ClientError::RecordRefused { partition, code, reason, .. } => {
            set_partition(partition, details)?;
            details.set_item("code", code.name())?;
            // Without a reason the record failed only because of others, and may be sent again.
            details.set_item("retriable", reason.is_none())
        }
        ClientError::Delivery(fault) => set_fault(fault, details),
        _ => Ok(()),
    }
}

fn set_fault(fault: &SendFault, details: &Bound<'_, PyDict>) -> PyResult<()> {
    match fault {
        SendFault::TimedOut { partition, outcome_unknown, .. } => {
            details.set_item("in_doubt", outcome_unknown)?;
            set_partition(partition, details)
        }
        SendFault::Refused { partition, code, .. } => {
            details.set_item("code", code.name())?;
            set_partition(partition, details)
        }
        SendFault::UnknownTopicOrPartition { partition } => set_partition(partition, details),
        _ => Ok(()),
    }
}

fn set_partition(partition: &TopicPartition, details: &Bound<'_, PyDict>) -> PyResult<()> {
    details.set_item("topic", &*partition.topic)?;
    details.set_item("partition", partition.partition)
}
