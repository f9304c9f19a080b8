//! The requests and answers that a fault delays or holds.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Effect;
use crate::request::{Action, Answer, Call, ConnectionId, Origin};

/// The effects on the next answer of a connection: the fault's id, its effect, and the answer to send instead.
pub(super) type Armed = Vec<(u64, Effect, Option<Answer>)>;

/// A delayed or held request or answer.
#[derive(Debug)]
pub(crate) enum HeldExchange {
    /// A request. It is carried out later even if its connection is closed by then, as if it were still in the network.
    Request { fault: u64, connection: ConnectionId, origin: Origin, frame: Bytes },
    /// An answer.
    Answer { connection: ConnectionId, action: Action },
}

impl HeldExchange {
    pub(super) fn request(fault: u64, call: &Call<'_>) -> Self {
        let (origin, frame) = (call.origin.clone(), call.frame.clone());
        Self::Request { fault, connection: call.ticket.connection, origin, frame }
    }
}

#[derive(Debug, Default)]
pub(super) struct HeldExchanges {
    /// The delayed ones, by the time at which they resume, then by arrival.
    delayed: BTreeMap<(i64, u64), HeldExchange>,
    /// The held ones by fault, in order of arrival.
    held: BTreeMap<u64, Vec<HeldExchange>>,
    arrivals: u64,
}

impl HeldExchanges {
    pub(super) fn delay(&mut self, due_ms: i64, exchange: HeldExchange) {
        self.arrivals += 1;
        self.delayed.insert((due_ms, self.arrivals), exchange);
    }

    pub(super) fn hold(&mut self, fault: u64, exchange: HeldExchange) {
        self.held.entry(fault).or_default().push(exchange);
    }

    /// Removes and returns the requests and answers that a fault holds, in order of arrival.
    pub(super) fn release(&mut self, fault: u64) -> Vec<HeldExchange> {
        self.held.remove(&fault).unwrap_or_default()
    }

    pub(super) fn take_due(&mut self, now_ms: i64) -> Option<HeldExchange> {
        let entry = self.delayed.first_entry().filter(|entry| entry.key().0 <= now_ms)?;
        Some(entry.remove())
    }

    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.delayed.first_key_value().map(|((due_ms, _), _)| *due_ms)
    }
}
