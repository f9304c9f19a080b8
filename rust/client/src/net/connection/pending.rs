//! Requests in flight on one connection, in their order on the wire, and their ends: an answer, a deadline, the end of
//! the connection.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use monedula_protocol::api::ApiKey;
use monedula_protocol::frame;
use tokio::sync::{Notify, oneshot};

use super::Limits;
use super::gate::HeldRequest;
use super::wire::{Frame, Reply};
use crate::budget::{Admitted, Room};
use crate::error::{ClientError, RequestError};
use crate::lock::lock;
use crate::log::{Entry, kinds};
use crate::run_time::RunInstant;

/// Longest wait for a broker. Quotas that are far exceeded, and garbage, ask for hours: the next request is sent after
/// this time all the same. If the broker delays its answer, the request times out.
pub(super) const LONGEST_THROTTLE: Duration = Duration::from_secs(60);

/// A request that waits for its answer or, where none comes, to be written.
pub(super) struct Pending {
    pub(super) correlation_id: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) sent_at: RunInstant,
    pub(super) deadline: RunInstant,
    pub(super) room: Option<Room>,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// State that a connection's handle and its task share: the requests in flight, and the times of events.
pub(super) struct SharedConnection {
    pub(super) broker: String,
    pub(super) limits: Limits,
    pub(super) pending: Mutex<VecDeque<Pending>>,
    /// Requests that wait until the client has authenticated again; `None` while the gate is open. Locked only by who
    /// has locked `pending`.
    pub(super) held: Mutex<Option<VecDeque<HeldRequest>>>,
    pub(super) answer_max_bytes: AtomicUsize,
    pub(super) closed: AtomicBool,
    /// True if the connection was of use: something beyond the handshake was answered, or written where nothing is
    /// answered.
    pub(super) served: AtomicBool,
    /// True if an answer has come that there is no room for: while it waits, no deadline counts.
    pub(super) waits_for_room: AtomicBool,
    pub(super) closing: Notify,
    /// True if the client closes it on purpose, and abandons what is in flight.
    pub(super) is_closed_by_client: AtomicBool,
    pub(super) ended: Notify,
    pub(super) times: Mutex<Times>,
}

pub(super) struct Times {
    pub(super) used_at: Instant,
    /// End of the time for which the broker wants no request (KIP-219).
    pub(super) throttled_until: Option<Instant>,
    pub(super) ended_at: Option<Instant>,
    /// Reason why the client closes the connection; `None` for an ordinary close.
    pub(super) close_reason: Option<String>,
}

/// True if it is part of making a connection: of no use in itself.
pub(super) fn is_set_up(api: ApiKey) -> bool {
    matches!(api, ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
}

/// True if the size of an answer depends on what brokers have, and not only on what was asked. The answers to all
/// others are small beside any limit.
fn may_be_large(api: ApiKey) -> bool {
    !matches!(
        api,
        ApiKey::Produce
            | ApiKey::ListOffsets
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::OffsetCommit
            | ApiKey::FindCoordinator
            | ApiKey::Heartbeat
            | ApiKey::ConsumerGroupHeartbeat
            | ApiKey::LeaveGroup
            | ApiKey::InitProducerId
            | ApiKey::AddPartitionsToTxn
            | ApiKey::AddOffsetsToTxn
            | ApiKey::EndTxn
            | ApiKey::TxnOffsetCommit
            | ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::CreatePartitions
            | ApiKey::DeleteRecords
            | ApiKey::DeleteGroups
            | ApiKey::OffsetDelete
            | ApiKey::PushTelemetry
    )
}

impl SharedConnection {
    pub(super) fn new(broker: String, limits: Limits) -> Self {
        let times = Times { used_at: Instant::now(), throttled_until: None, ended_at: None, close_reason: None };
        Self {
            broker,
            answer_max_bytes: AtomicUsize::new(limits.receive_max_bytes),
            limits,
            pending: Mutex::default(),
            held: Mutex::default(),
            closed: AtomicBool::new(false),
            served: AtomicBool::new(false),
            waits_for_room: AtomicBool::new(false),
            closing: Notify::new(),
            is_closed_by_client: AtomicBool::new(false),
            ended: Notify::new(),
            times: Mutex::new(times),
        }
    }

    pub(super) fn pending(&self) -> std::sync::MutexGuard<'_, VecDeque<Pending>> {
        lock(&self.pending)
    }

    pub(super) fn held(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<HeldRequest>>> {
        lock(&self.held)
    }

    pub(super) fn times(&self) -> std::sync::MutexGuard<'_, Times> {
        lock(&self.times)
    }

    pub(super) fn touch(&self) {
        self.times().used_at = Instant::now();
    }

    pub(super) fn disconnected(&self, reason: &str) -> RequestError {
        RequestError::Disconnected { broker: self.broker.clone(), reason: reason.to_owned() }
    }

    /// Waits until an answer may be read that is larger than what was kept for it. The broker is done, so meanwhile no
    /// deadline counts, and after it all of this connection begin anew. None where enough was kept.
    pub(super) async fn admit(&self, bytes: usize) -> Option<Admitted> {
        let larger = |room: &Room| bytes > room.kept_bytes;
        let room = self.pending().front().and_then(|first| first.room.clone().filter(larger))?;
        self.waits_for_room.store(true, Ordering::Release);
        let admitted = room.admit(bytes).await;
        let deadline = RunInstant::now() + self.limits.request_timeout;
        for pending in self.pending().iter_mut() {
            pending.deadline = pending.deadline.max(deadline);
        }
        self.waits_for_room.store(false, Ordering::Release);
        admitted
    }

    /// A request that is never answered is written, and done with that.
    pub(super) fn written(&self, correlation_id: i32) {
        let mut pending = self.pending();
        let place = pending.iter().position(|pending| pending.correlation_id == correlation_id);
        let done = place.and_then(|place| pending.remove(place));
        drop(pending);
        self.served.store(true, Ordering::Release);
        self.touch();
        if let Some(done) = done {
            // A waiter that is gone was cancelled.
            let _ = done.reply.send(Ok(Frame { bytes: self.limits.pool.take(0), admitted: None }));
        }
    }

    /// The error of a port whose first answer is not a broker's, by the first bytes of it.
    pub(super) fn speaks_another_protocol(&self, prefix: [u8; 4]) -> Option<RequestError> {
        if self.pending().front().is_some_and(|first| first.api != ApiKey::ApiVersions) {
            return None;
        }
        let (key, reason) = match prefix {
            // An alert of TLS 1.0 to 1.3: as a length these bytes would be 336 MB.
            [0x15, 3, 0..=4, _] => {
                ("security.protocol", "the broker answers in TLS: this port is one with it; set SSL, or SASL_SSL")
            }
            [b'H', b'T', b'T', b'P'] => {
                ("bootstrap.servers", "an HTTP server answers here, and no broker; check the address")
            }
            _ => return None,
        };
        Some(RequestError::OtherProtocol { broker: self.broker.clone(), key, reason: reason.into() })
    }

    /// True if a length beyond the limit may be that of an answer. A server that answers the handshake with so much is
    /// no broker.
    pub(super) fn may_be_too_large(&self, bytes: i32) -> bool {
        bytes > 0 && self.pending().front().is_some_and(|first| !is_set_up(first.api))
    }

    /// An answer whose length is beyond the limit. If it may be large at all, and was too large the last time too, it
    /// would be so again: its waiter gets an error that names the setting to change. Otherwise the length may be
    /// damaged, and the request is to be sent again, as those behind it are.
    pub(super) fn fail_too_large(&self, bytes: i32, correlation_id: i32) {
        let oversized = &self.limits.oversized;
        let is_again = |api: ApiKey| may_be_large(api) && !lock(oversized).insert((self.broker.clone(), api.code()));
        let is_it = |first: &mut Pending| first.correlation_id == correlation_id && is_again(first.api);
        let first = self.pending().pop_front_if(is_it);
        let Some(first) = first else { return };
        let too_large = ClientError::AnswerTooLarge {
            broker: self.broker.clone(),
            api: first.api.name(),
            bytes: bytes.unsigned_abs() as usize,
            limit: self.limits.receive_max_bytes,
        };
        self.limits.log.record(&kinds::RESPONSE_TOO_LARGE, || Entry::new(too_large.to_string()).broker(&self.broker));
        let _ = first.reply.send(Err(RequestError::Fatal(Box::new(too_large))));
    }

    /// Hands an answer to its waiter. Brokers answer in order, so any other correlation id means that one side lost
    /// count.
    pub(super) fn answer(&self, frame: Frame) -> Result<(), RequestError> {
        let wire = |error| RequestError::Wire { broker: self.broker.clone(), error };
        let correlation_id = frame::correlation_id(frame.as_slice()).map_err(wire)?;
        let waiting = self.pending().pop_front_if(|pending| pending.correlation_id == correlation_id);
        // A request that waits for another answer stays in the queue: it gets the error that the connection ends with.
        let Some(pending) = waiting else {
            return Err(
                self.disconnected(&format!("an answer came with the unexpected correlation id {correlation_id}"))
            );
        };
        lock(&self.limits.oversized).retain(|(broker, api)| *api != pending.api.code() || *broker != self.broker);
        // A connection that does nothing but authenticate again is idle.
        if !is_set_up(pending.api) {
            self.touch();
            self.served.store(true, Ordering::Release);
        }
        if let Some(throttle_time_ms) = frame::throttle_time_ms(pending.api, pending.version, frame.as_slice()) {
            self.throttle(throttle_time_ms);
        }
        self.limits.metrics.responses_received(1);
        self.limits.log.record(&kinds::RESPONSE_RECEIVED, || {
            let (broker, api, size) = (&self.broker, pending.api.name(), frame.len());
            Entry::new(format!("{broker}: answer to {api}, #{correlation_id}, {size} bytes")).broker(broker)
        });
        // A waiter that is gone was cancelled: its answer is discarded, and the connection goes on.
        let _ = pending.reply.send(Ok(frame));
        Ok(())
    }

    /// Sends no request for the `throttle_time_ms` of an answer (KIP-219).
    pub(super) fn throttle(&self, throttle_time_ms: i32) {
        let Some(wait) = u64::try_from(throttle_time_ms).ok().filter(|&ms| ms > 0).map(Duration::from_millis) else {
            return;
        };
        self.throttle_until(Some(Instant::now() + wait.min(LONGEST_THROTTLE)));
        self.limits.metrics.throttled(1);
        self.limits.log.record(&kinds::THROTTLED, || {
            let (broker, wait_ms) = (&self.broker, wait.as_millis());
            Entry::new(format!("{broker}: a quota is exceeded; the next request goes in {wait_ms} ms")).broker(broker)
        });
    }

    pub(super) fn throttle_until(&self, until: Option<Instant>) {
        let mut times = self.times();
        times.throttled_until = times.throttled_until.max(until);
    }

    pub(super) fn overdue(&self) -> Option<RequestError> {
        let now = RunInstant::now();
        let pending = self.pending();
        match pending.front() {
            Some(oldest) if oldest.deadline <= now && !self.waits_for_room.load(Ordering::Acquire) => {
                Some(RequestError::TimedOut { broker: self.broker.clone(), after: self.limits.request_timeout })
            }
            Some(_) => None,
            None => {
                let used_at = self.times().used_at;
                (used_at.elapsed() >= self.limits.max_idle).then(|| self.disconnected("idle"))
            }
        }
    }

    pub(super) fn close(&self, error: &RequestError) {
        let waiting = {
            let mut pending = self.pending();
            self.times().ended_at = Some(Instant::now());
            self.closed.store(true, Ordering::Release);
            let held = self.held().take().unwrap_or_default().into_iter().map(|held| held.pending);
            pending.extend(held);
            std::mem::take(&mut *pending)
        };
        self.ended.notify_waiters();
        self.limits.metrics.connections_closed(1);
        // A client that closes its connections itself abandons what was in flight.
        let is_lost = !waiting.is_empty() && !self.is_closed_by_client.load(Ordering::Acquire);
        let kind = if is_lost { &kinds::CONNECTION_LOST } else { &kinds::CONNECTION_CLOSED };
        self.limits.log.record(kind, || {
            let waiting = waiting.len();
            Entry::new(format!("closed: {error}; {waiting} requests were waiting")).broker(&self.broker)
        });
        for pending in waiting {
            let _ = pending.reply.send(Err(error.clone()));
        }
    }
}
