//! What the user sends, and what comes back for it.

use std::sync::Arc;
use std::time::Instant;

pub use monedula_protocol::records::Header;

use crate::error::ClientError;

/// A record to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// Where to.
    pub topic: &'a str,
    /// The partition; `None` leaves it to the partitioner.
    pub partition: Option<i32>,
    /// Milliseconds since the epoch; `None` is now.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a [Header<'a>],
    /// When it counts as sent, for one that had to wait before; `None` is now.
    pub since: Option<Instant>,
    /// The transaction that it was sent in, for one that had to wait: no other takes it.
    pub sent_in: Option<u64>,
}

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// Its offset; `None` with acks=0, or where a broker had it already and no longer knows where.
    pub offset: Option<i64>,
    /// The record's own, or when the broker appended it where the topic keeps that time.
    pub timestamp_ms: i64,
}

/// What became of a record.
pub type DeliveryResult = Result<Delivered, ClientError>;

/// Why a record was not taken.
#[derive(Clone, Debug)]
pub enum Refused {
    /// There is no room in `buffer.memory`: wait for it with `wait_for_room` and send again.
    Full {
        /// The bytes that are needed.
        needed: usize,
    },
    /// It cannot be sent at all.
    Error(ClientError),
}

impl From<ClientError> for Refused {
    fn from(error: ClientError) -> Self {
        Self::Error(error)
    }
}
