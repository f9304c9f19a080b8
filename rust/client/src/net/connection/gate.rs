//! The gate before a connection: while the client authenticates again (KIP-368), requests wait here.
//!
//! A broker takes nothing but SASL between SaslHandshake and the end of the exchange. Requests that were sent before
//! stay in flight, so a JoinGroup that is answered after minutes only delays the exchange. Those that come meanwhile
//! are sent in their order once the gate opens; their deadlines begin then.

use std::time::Duration;

use super::pending::Pending;
use super::{Connection, Outgoing};
use crate::run_time::RunInstant;

/// A request that waits for the gate to open.
pub(super) struct HeldRequest {
    pub(super) pending: Pending,
    pub(super) outgoing: Outgoing,
    /// Longest time for its answer.
    pub(super) patience: Duration,
}

/// The closed gate of a connection. If it is dropped without [`Self::open`], the connection is closed: nobody would
/// ever send what waits.
pub(crate) struct Gate<'c> {
    connection: &'c Connection,
    opened: bool,
}

impl Connection {
    /// Lets requests wait from now on, but for those of the login. Returns how long the ones before may still take.
    pub(crate) fn close_gate(&self) -> (Gate<'_>, Duration) {
        let pending = self.shared.pending();
        self.shared.held().get_or_insert_default();
        let last = pending.iter().map(|pending| pending.deadline).max();
        let busy = last.map_or(Duration::ZERO, |last| last.since(RunInstant::now()));
        (Gate { connection: self, opened: false }, busy)
    }
}

#[cfg(test)]
impl Connection {
    pub(crate) fn is_gate_closed(&self) -> bool {
        self.shared.held().is_some()
    }
}

impl Gate<'_> {
    pub(crate) fn open(mut self) {
        self.opened = true;
        let shared = &self.connection.shared;
        let mut queue = shared.pending();
        for HeldRequest { mut pending, outgoing, patience } in shared.held().take().unwrap_or_default() {
            // A waiter that is gone was cancelled, and its request was never sent.
            if pending.reply.is_closed() {
                continue;
            }
            pending.deadline = RunInstant::now() + patience;
            // If the task has ended, it answers what is in the queue.
            let _ = self.connection.outgoing.send(outgoing);
            queue.push_back(pending);
        }
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if !self.opened {
            self.connection.close();
        }
    }
}
