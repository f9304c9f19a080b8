//! One TCP connection: pipelined requests, answers matched by correlation id, deadlines.
//!
//! Dropping a waiter never closes the connection: its answer is read and discarded. A request without an answer in its
//! time does close it, because nothing behind it on this connection will be answered either. However the connection's
//! task ends, by a panic too, every waiter gets an error.

mod gate;
mod pending;
mod wire;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use monedula_columns::BufferPool;
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::frame;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};

use self::gate::HeldRequest;
use self::pending::{Pending, SharedConnection, is_set_up};
use self::wire::write_pieces;
pub(crate) use self::wire::{Expected, Frame, Pieces, Reply};
use crate::error::RequestError;
use crate::log::{Entry, Log, kinds};
use crate::metrics::Metrics;
use crate::net::tls::{CutRecord, alert_after_handshake};
use crate::net::transport::{ReadHalf, Transport, WriteHalf};
use crate::run_time::RunInstant;

/// Settings and parts that the connections of a client have in common.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) client_id: String,
    pub(crate) request_timeout: Duration,
    pub(crate) max_idle: Duration,
    pub(crate) receive_max_bytes: usize,
    /// The brokers and codes of APIs whose last answer was too large.
    pub(crate) oversized: Arc<Mutex<BTreeSet<(String, i16)>>>,
    pub(crate) pool: BufferPool,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
}

/// A request for the connection's task to write.
struct Outgoing {
    pieces: Pieces,
    /// The correlation id of a request that is never answered: it is done once it is written.
    done_when_written: Option<i32>,
}

/// Longest time for telling the broker of an orderly end.
const FAREWELL: Duration = Duration::from_millis(500);

/// A handle to the connection's tasks; the connection ends when the last is dropped.
pub(crate) struct Connection {
    shared: Arc<SharedConnection>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    next_correlation_id: AtomicI32,
}

impl Connection {
    /// Starts the tasks of a connected socket.
    pub(crate) fn start(stream: impl Into<Transport>, broker: String, limits: Limits) -> Self {
        let (read, write) = stream.into().split();
        let (outgoing, requests) = mpsc::unbounded_channel();
        let shared = Arc::new(SharedConnection::new(broker, limits));
        tokio::spawn(run(Ending(shared.clone()), read, write, requests));
        Self { shared, outgoing, next_correlation_id: AtomicI32::new(0) }
    }

    pub(crate) fn broker(&self) -> &str {
        &self.shared.broker
    }

    /// The request that waits longest for its answer: for how long, and for how long its broker may hold it.
    pub(crate) fn oldest_waiting(&self) -> Option<(ApiKey, Duration, Duration)> {
        let pending = self.shared.pending();
        pending.front().map(|oldest| {
            let allowed = oldest.deadline.since(oldest.sent_at);
            let held_back = allowed.saturating_sub(self.shared.limits.request_timeout);
            (oldest.api, oldest.sent_at.elapsed(), held_back)
        })
    }

    /// Ends the connection now, whatever waits on it.
    pub(crate) fn close(&self) {
        self.shared.is_closed_by_client.store(true, Ordering::Release);
        self.shared.closing.notify_one();
    }

    /// As [`Self::close`]; those that wait hear `reason`.
    pub(crate) fn close_because(&self, reason: &str) {
        self.shared.times().close_reason = Some(reason.to_owned());
        self.close();
    }

    /// End of the time for which the broker wants no request, if it named one (KIP-219).
    pub(crate) fn throttled_until(&self) -> Option<Instant> {
        self.shared.times().throttled_until
    }

    /// Applies the `throttle_time_ms` of an answer that [`SharedConnection::answer`] does not decode.
    pub(crate) fn throttle(&self, throttle_time_ms: i32) {
        self.shared.throttle(throttle_time_ms);
    }

    /// Takes over the wait of the previous connection to the broker.
    pub(crate) fn throttle_until(&self, until: Option<Instant>) {
        self.shared.throttle_until(until);
    }

    /// The largest answer that is taken from now on, if it is less than `receive.message.max.bytes`.
    pub(crate) fn limit_answers(&self, max_bytes: usize) {
        let limit = max_bytes.min(self.shared.limits.receive_max_bytes);
        self.shared.answer_max_bytes.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// True if anything beyond the handshake was answered, or written where nothing is answered.
    pub(crate) fn has_served(&self) -> bool {
        self.shared.served.load(Ordering::Acquire)
    }

    pub(crate) fn ended_at(&self) -> Option<Instant> {
        self.shared.times().ended_at
    }

    /// Resolves when the connection closes. Holding it does not keep the connection open.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = self.shared.clone();
        async move {
            let mut ended = std::pin::pin!(shared.ended.notified());
            // Listens from here on, so that an end after the look below is noticed.
            ended.as_mut().enable();
            if !shared.closed.load(Ordering::Acquire) {
                ended.await;
            }
        }
    }

    /// Sends a request in `version` and waits for its answer, at most `request.timeout.ms` plus what is expected
    /// beyond.
    pub(crate) async fn call<'q, R: Request<'q>>(
        &self,
        request: &R,
        version: i16,
        expected: impl Into<Expected>,
    ) -> Reply {
        let encode = |id, client_id: &str| frame::encode_request(request, version, id, Some(client_id));
        self.call_encoded(R::API_KEY, version, expected.into(), encode).await
    }

    /// As [`Self::call`], for a request that `encode` makes of its correlation id and `client.id`.
    pub(crate) async fn call_encoded(
        &self,
        api: ApiKey,
        version: i16,
        expected: Expected,
        encode: impl FnOnce(i32, &str) -> Result<Vec<u8>, WireError>,
    ) -> Reply {
        let reply = self.send(api, version, expected, true, encode)?;
        self.reply(reply).await
    }

    /// Waits for the answer to [`Self::send`].
    pub(crate) async fn reply(&self, reply: oneshot::Receiver<Reply>) -> Reply {
        reply.await.unwrap_or_else(|_| Err(self.shared.disconnected("the connection was closed")))
    }

    /// Puts a request behind those sent before, at once. One that is never answered gets an empty answer when it is
    /// written.
    pub(crate) fn send<P: Into<Pieces>>(
        &self,
        api: ApiKey,
        version: i16,
        expected: Expected,
        is_answered: bool,
        encode: impl FnOnce(i32, &str) -> Result<P, WireError>,
    ) -> Result<oneshot::Receiver<Reply>, RequestError> {
        let correlation_id = self.next_correlation_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        let pieces = encode(correlation_id, &self.shared.limits.client_id)
            .map_err(|error| RequestError::Wire { broker: self.shared.broker.clone(), error })?
            .into();
        self.send_encoded(api, version, correlation_id, expected, is_answered, pieces)
    }

    fn send_encoded(
        &self,
        api: ApiKey,
        version: i16,
        correlation_id: i32,
        Expected { extra, room }: Expected,
        is_answered: bool,
        pieces: Pieces,
    ) -> Result<oneshot::Receiver<Reply>, RequestError> {
        let limits = &self.shared.limits;
        limits.log.record(&kinds::REQUEST_SENT, || {
            let (broker, name) = (&self.shared.broker, api.name());
            let size: usize = pieces.0.iter().map(Bytes::len).sum();
            // The size of a login tells the length of the password.
            let size = if api == ApiKey::SaslAuthenticate { String::new() } else { format!(", {size} bytes") };
            let code = api.code();
            Entry::new(format!("{broker}: sent {name} v{version} (key {code}), #{correlation_id}{size}")).broker(broker)
        });
        let (reply, receiver) = oneshot::channel();
        let patience = limits.request_timeout + extra;
        let sent_at = RunInstant::now();
        let deadline = sent_at + patience;
        let done_when_written = (!is_answered).then_some(correlation_id);
        let outgoing = Outgoing { pieces, done_when_written };
        let pending = Pending { correlation_id, api, version, sent_at, deadline, room, reply };
        // Both under one lock: the order of `pending` has to be the order on the wire.
        let mut queue = self.shared.pending();
        if self.is_closed() {
            return Err(self.shared.disconnected("the connection was closed"));
        }
        if let Some(held) = self.shared.held().as_mut().filter(|_| !is_set_up(api)) {
            held.push_back(HeldRequest { pending, outgoing, patience });
        } else if self.outgoing.send(outgoing).is_err() {
            return Err(self.shared.disconnected("the connection was closed"));
        } else {
            queue.push_back(pending);
        }
        drop(queue);
        if !is_set_up(api) {
            self.shared.touch();
        }
        limits.metrics.requests_sent(1);
        Ok(receiver)
    }
}

/// Held by the connection's task: whatever ends the task, a panic or the end of its runtime too, closes the connection,
/// so that nobody waits on it for ever.
struct Ending(Arc<SharedConnection>);

impl Drop for Ending {
    fn drop(&mut self) {
        let shared = &self.0;
        if !shared.closed.load(Ordering::Acquire) {
            let because = if std::thread::panicking() { "it panicked" } else { "its runtime was shut down" };
            shared.close(&shared.disconnected(&format!("the connection's task ended: {because}")));
        }
    }
}

/// Runs both halves until one fails, nobody holds the connection, or it is overdue or idle.
async fn run(
    ending: Ending,
    mut read: ReadHalf,
    mut write: WriteHalf,
    mut requests: mpsc::UnboundedReceiver<Outgoing>,
) {
    let shared = &ending.0;
    let writer = async {
        while let Some(Outgoing { pieces, done_when_written }) = requests.recv().await {
            if let Err(error) = write_pieces(&mut write, pieces).await {
                return (shared.disconnected(&format!("sending failed: {error}")), false);
            }
            if let Some(correlation_id) = done_when_written {
                shared.written(correlation_id);
            }
        }
        (shared.disconnected("the client closed the connection"), true)
    };
    let limits = &shared.limits;
    let watch = async {
        let period = (limits.request_timeout / 4).min(limits.max_idle / 2);
        let mut ticks = tokio::time::interval(period.clamp(Duration::from_millis(5), Duration::from_millis(250)));
        loop {
            ticks.tick().await;
            if let Some(error) = shared.overdue() {
                return error;
            }
        }
    };
    let (error, is_orderly) = tokio::select! {
        // A broker that refuses the client's certificate says so and closes: its words are read before a failed write
        // counts.
        biased;
        error = read_frames(shared, &mut read) => (error, false),
        ended = writer => ended,
        error = watch => (error, true),
        () = shared.closing.notified() => {
            let reason = shared.times().close_reason.take();
            (shared.disconnected(reason.as_deref().unwrap_or("the client closed the connection")), true)
        }
    };
    if matches!(error, RequestError::TimedOut { .. }) {
        // The system would go on for minutes to send the bytes that did not get through: a commit that is repeated on
        // another connection would arrive again after later ones, and move the group back. A reset discards them.
        if let Err(error) = write.reset() {
            limits.log.record(&kinds::RESET_FAILED, || {
                Entry::new(format!("{}: not to be reset: {error}", shared.broker)).broker(&shared.broker)
            });
        }
        return shared.close(&error);
    }
    shared.close(&error);
    if is_orderly {
        // A broker that does not read is not waited for.
        let _ = tokio::time::timeout(FAREWELL, write.close()).await;
    }
}

/// Reason that nothing more comes. A connection that ends between two answers was closed; else the rest was cut.
fn ended(shared: &SharedConnection, error: &std::io::Error, is_within_answer: bool) -> RequestError {
    if let Some(refusal) = alert_after_handshake(&shared.broker, error) {
        return refusal;
    }
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof if error.get_ref().is_some_and(|inner| inner.is::<CutRecord>()) => {
            shared.disconnected(&CutRecord.to_string())
        }
        std::io::ErrorKind::UnexpectedEof if is_within_answer => {
            shared.disconnected("the broker closed the connection in the middle of an answer")
        }
        std::io::ErrorKind::UnexpectedEof => shared.disconnected("the broker closed the connection"),
        std::io::ErrorKind::ConnectionReset => shared.disconnected("the broker closed the connection by a reset"),
        _ => shared.disconnected(&format!("receiving failed: {error}")),
    }
}

/// Reads into all of `into`; `begun` says whether an answer has begun before it.
async fn fill(
    shared: &SharedConnection,
    read: &mut ReadHalf,
    into: &mut [u8],
    begun: bool,
) -> Result<(), RequestError> {
    let mut filled = 0;
    while filled < into.len() {
        let outcome = match read.read(&mut into[filled..]).await {
            Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            outcome => outcome,
        };
        filled += outcome.map_err(|error| ended(shared, &error, begun || filled > 0))?;
    }
    Ok(())
}

async fn read_frames(shared: &SharedConnection, read: &mut ReadHalf) -> RequestError {
    loop {
        match read_frame(shared, read).await {
            Ok(frame) => {
                if let Err(error) = shared.answer(frame) {
                    return error;
                }
            }
            Err(error) => return error,
        }
    }
}

async fn read_frame(shared: &SharedConnection, read: &mut ReadHalf) -> Result<Frame, RequestError> {
    let mut prefix = [0; 4];
    fill(shared, read, &mut prefix, false).await?;
    let limits = &shared.limits;
    if let Some(error) = shared.speaks_another_protocol(prefix) {
        return Err(error);
    }
    let length = match frame::frame_length(prefix, shared.answer_max_bytes.load(Ordering::Relaxed)) {
        Ok(length) => length,
        Err(error) => {
            let bytes = i32::from_be_bytes(prefix);
            if shared.may_be_too_large(bytes) {
                let mut correlation_id = [0; 4];
                fill(shared, read, &mut correlation_id, true).await?;
                shared.fail_too_large(bytes, i32::from_be_bytes(correlation_id));
            }
            return Err(RequestError::Wire { broker: shared.broker.clone(), error });
        }
    };
    let admitted = shared.admit(length).await;
    let mut frame = limits.pool.try_take(length).map_err(|lack| {
        // The user may wait for this answer, and would not know why it does not come.
        limits
            .log
            .record(&kinds::NO_MEMORY, || Entry::new(format!("{}: {lack}", shared.broker)).broker(&shared.broker));
        shared.disconnected(&format!("an answer could not be taken: {lack}"))
    })?;
    while frame.len() < length {
        let (filled, missing) = (frame.len(), length - frame.len());
        match read.read(&mut frame.spare_mut()[..missing]).await {
            Ok(0) => return Err(ended(shared, &std::io::ErrorKind::UnexpectedEof.into(), true)),
            Ok(more) => frame.set_len(filled + more),
            Err(error) => return Err(ended(shared, &error, true)),
        }
    }
    limits.metrics.bytes_received(length as u64 + 4);
    Ok(Frame { bytes: frame, admitted })
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
