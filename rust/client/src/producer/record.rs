//! A record to be sent, and its outcome.

use std::sync::Arc;
use std::time::Instant;

pub use monedula_protocol::records::Header;

use crate::error::ClientError;

/// A record to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition; `None` has the partitioner choose.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; `None` is now.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a [Header<'a>],
    /// Time at which it was sent, for a record that had to wait; `None` is now.
    pub since: Option<Instant>,
    /// The transaction in which it was sent, for a record that had to wait: no other one admits it.
    pub sent_in: Option<u64>,
}

/// Place of an acknowledged record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset; `None` with acks=0, or if the broker already had the record and no longer knows its offset.
    pub offset: Option<i64>,
    /// The timestamp: the record's own, or the broker's for topics with LogAppendTime.
    pub timestamp_ms: i64,
}

/// The outcome of a record.
pub type DeliveryResult = Result<Delivered, ClientError>;

/// Reason that a record was not taken.
#[derive(Clone, Debug)]
pub enum Refused {
    /// `buffer.memory` has no room: wait for it with `wait_for_room`, and send again.
    Full {
        /// Number of bytes that it needs.
        needed: usize,
    },
    /// The record cannot be sent.
    Error(ClientError),
}

impl From<ClientError> for Refused {
    fn from(error: ClientError) -> Self {
        Self::Error(error)
    }
}
