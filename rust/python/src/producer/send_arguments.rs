//! The arguments of `send`, and the ways to send them.

use std::time::{Duration, Instant};

use monedula_client::producer::{Record, RecordFuture, Refused, SendPermit};
use pyo3::prelude::*;

use super::argument_values::{Headers, data, partition, timestamp, topic};
use super::future::SendFuture;
use super::{ProducerCore, Shared};
use crate::error::to_py;

#[derive(Clone, Copy)]
pub(super) struct SendArguments<'a, 'py> {
    pub(super) topic: &'a Bound<'py, PyAny>,
    pub(super) value: Option<&'a Bound<'py, PyAny>>,
    pub(super) key: Option<&'a Bound<'py, PyAny>>,
    pub(super) partition: Option<&'a Bound<'py, PyAny>>,
    pub(super) headers: Option<&'a Bound<'py, PyAny>>,
    pub(super) timestamp: Option<&'a Bound<'py, PyAny>>,
    /// Time at which the record was sent, if not now.
    pub(super) since: Option<Instant>,
    /// The transaction in which the record was sent, if it had to wait.
    pub(super) sent_in: Option<u64>,
}

impl<'py> SendArguments<'_, 'py> {
    #[inline]
    pub(super) fn with_record<T>(&self, with: impl FnOnce(&Record<'_>) -> T) -> PyResult<T> {
        let (value, key) = (data("value", self.value)?, data("key", self.key)?);
        let record = Record {
            topic: topic(self.topic)?,
            partition: partition(self.partition)?,
            timestamp_ms: timestamp(self.timestamp)?,
            key: key.as_ref().map(|key| key.bytes()),
            value: value.as_ref().map(|value| value.bytes()),
            headers: &[],
            since: self.since,
            sent_in: self.sent_in,
        };
        match self.headers {
            None => Ok(with(&record)),
            Some(_) => {
                let held = Headers::of(self.headers)?;
                let values = held.values()?;
                Ok(with(&Record { headers: &held.headers(&values)?, ..record }))
            }
        }
    }

    #[inline]
    pub(super) fn send(&self, shared: &Shared) -> PyResult<Result<RecordFuture, Refused>> {
        self.with_record(|record| shared.producer.send(record))
    }

    /// `buffer.memory` is full: waits for room without the GIL, and tries again as often as other senders take the room
    /// first.
    #[cold]
    pub(super) fn wait_and_send(
        &self,
        py: Python<'_>,
        shared: &Shared,
        needed: usize,
        patience: Duration,
    ) -> PyResult<RecordFuture> {
        let deadline = Instant::now() + patience;
        // The record belongs to the transaction that is open now, whichever is open once there is room.
        let permit = match self.sent_in {
            Some(_) => None,
            None => Some(shared.producer.acquire_permit().map_err(|error| to_py(py, error))?),
        };
        let arguments = Self { sent_in: permit.as_ref().map(SendPermit::transaction).or(self.sent_in), ..*self };
        let mut needed = needed;
        loop {
            shared.wait_for_room(py, needed, deadline, arguments.sent_in)?;
            // The wait checks for signals only if it blocks.
            py.check_signals()?;
            match arguments.send(shared)? {
                Ok(sent) => return Ok(sent),
                Err(Refused::Full { needed: more }) if Instant::now() < deadline => needed = more,
                Err(Refused::Full { needed }) => return Err(to_py(py, shared.buffer_full(needed))),
                Err(Refused::Error(error)) => return Err(to_py(py, error)),
            }
        }
    }

    #[cold]
    pub(super) fn send_or_queue(
        &self,
        core: &Bound<'py, ProducerCore>,
        on_delivery: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, SendFuture>> {
        let Self { topic, value, key, partition, headers, timestamp, .. } = *self;
        let arguments = (topic, value, key, partition, headers, timestamp, on_delivery);
        Ok(core.call_method1("_send_or_queue", arguments)?.cast_into::<SendFuture>()?)
    }
}
