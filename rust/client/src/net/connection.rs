//! One TCP connection: pipelined requests, answers matched by correlation id, deadlines.
//!
//! Dropping a waiter never closes the connection: its answer is read and discarded. A request without an answer in its
//! time does close it, because nothing behind it on this connection will be answered either. However the connection's task
//! ends, by a panic too, whoever waits for an answer is told.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use monedula_columns::{BufferPool, PooledVec};
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::error::WireError;
use monedula_protocol::frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::budget::{Admitted, Room};
use crate::error::{ClientError, RequestError};
use crate::lock::lock;
use crate::log::{Level, Log};
use crate::metrics::Metrics;

/// What connections share.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) client_id: String,
    pub(crate) request_timeout: Duration,
    pub(crate) max_idle: Duration,
    pub(crate) receive_max_bytes: usize,
    pub(crate) pool: BufferPool,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
}

/// An answer, without its length prefix.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: PooledVec,
    admitted: Option<Admitted>,
}

impl Frame {
    /// What the budget is charged with for it, beside what was kept.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.admitted.as_ref().map_or(0, Admitted::charged_bytes)
    }
}

impl Deref for Frame {
    type Target = PooledVec;

    fn deref(&self) -> &PooledVec {
        &self.bytes
    }
}

/// What is known of an answer when it is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// What it may take beyond `request.timeout.ms`: the time for which the broker is asked to wait.
    pub(crate) extra: Duration,
    /// Memory that was kept for it. A larger one is read when the budget has room.
    pub(crate) room: Option<Room>,
}

impl From<Duration> for Expected {
    fn from(extra: Duration) -> Self {
        Self { extra, room: None }
    }
}

pub(crate) type Reply = Result<Frame, RequestError>;

/// A request in pieces, written in their order without being put together.
pub(crate) struct Pieces(pub(crate) Vec<Bytes>);

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        Self(vec![bytes.into()])
    }
}

struct Outgoing {
    pieces: Pieces,
    /// Of a request that is never answered, and done once it is written.
    done_when_written: Option<i32>,
}

/// A request that waits for its answer or, where none comes, to be written.
struct Pending {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
    deadline: Instant,
    room: Option<Room>,
    reply: oneshot::Sender<Reply>,
}

struct Shared {
    broker: String,
    limits: Limits,
    pending: Mutex<VecDeque<Pending>>,
    closed: AtomicBool,
    /// Whether it was of use: something beyond the handshake was answered, or written where nothing is answered.
    served: AtomicBool,
    /// Whether an answer has come that there is no room for: while it waits, no deadline counts.
    waits_for_room: AtomicBool,
    closing: Notify,
    ended: Notify,
    times: Mutex<Times>,
}

struct Times {
    /// When something was last sent or received.
    used_at: Instant,
    /// Until when the broker wants no request (KIP-219).
    throttled_until: Option<Instant>,
    ended_at: Option<Instant>,
}

/// Longest wait that a broker can ask for. Quotas that are far exceeded, and answers that are garbage, ask for hours: after
/// this the next request goes out all the same, and a broker that still holds back is told of by that request's deadline.
const LONGEST_THROTTLE: Duration = Duration::from_secs(60);

/// A handle to the connection's tasks; the connection ends when the last is dropped.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    next_correlation_id: AtomicI32,
}

impl Connection {
    /// Starts the tasks of a connected socket.
    pub(crate) fn start(stream: TcpStream, broker: String, limits: Limits) -> Self {
        let (read, write) = stream.into_split();
        let (outgoing, requests) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            broker,
            limits,
            pending: Mutex::default(),
            closed: AtomicBool::new(false),
            served: AtomicBool::new(false),
            waits_for_room: AtomicBool::new(false),
            closing: Notify::new(),
            ended: Notify::new(),
            times: Mutex::new(Times { used_at: Instant::now(), throttled_until: None, ended_at: None }),
        });
        tokio::spawn(run(Ending(shared.clone()), read, write, requests));
        Self { shared, outgoing, next_correlation_id: AtomicI32::new(0) }
    }

    pub(crate) fn broker(&self) -> &str {
        &self.shared.broker
    }

    /// Ends the connection now, whatever waits on it.
    pub(crate) fn close(&self) {
        self.shared.closing.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Whether anything beyond the handshake was answered, or written where nothing is answered.
    pub(crate) fn has_served(&self) -> bool {
        self.shared.served.load(Ordering::Acquire)
    }

    /// When it ended, if it did.
    pub(crate) fn ended_at(&self) -> Option<Instant> {
        self.shared.times().ended_at
    }

    /// Until when the broker wants no request (KIP-219), if it said so.
    pub(crate) fn throttled_until(&self) -> Option<Instant> {
        self.shared.times().throttled_until
    }

    /// The broker wants no request for so long, as an answer said; [`Shared::answer`] sees it in most.
    pub(crate) fn throttle(&self, throttle_time_ms: i32) {
        self.shared.throttle(throttle_time_ms);
    }

    /// The same, as the connection before this one was told.
    pub(crate) fn throttle_until(&self, until: Option<Instant>) {
        let mut times = self.shared.times();
        times.throttled_until = times.throttled_until.max(until);
    }

    /// Comes with the end of the connection, which it does not keep.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.shared.clone();
        async move {
            let mut ended = std::pin::pin!(shared.ended.notified());
            // Listens from here on: an end after the look is heard of.
            ended.as_mut().enable();
            if !shared.closed.load(Ordering::Acquire) {
                ended.await;
            }
        }
    }

    /// Sends a request in `version` and waits for its answer, at most `request.timeout.ms` plus what is expected beyond.
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

    /// Waits for what [`Self::send`] gave.
    pub(crate) async fn reply(&self, reply: oneshot::Receiver<Reply>) -> Reply {
        reply.await.unwrap_or_else(|_| Err(self.shared.disconnected("the connection was closed")))
    }

    /// Puts a request behind those sent before, at once. Without an answer to come, an empty one comes when it is written.
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
        limits.log.record(Level::Debug, "connection", || {
            let (broker, name) = (&self.shared.broker, api.name());
            let size: usize = pieces.0.iter().map(Bytes::len).sum();
            format!("{broker}: sent {name} v{version} (key {}), #{correlation_id}, {size} bytes", api.code())
        });
        let (reply, receiver) = oneshot::channel();
        let deadline = Instant::now() + limits.request_timeout + extra;
        let done_when_written = (!is_answered).then_some(correlation_id);
        // Both under one lock: the order of `pending` has to be the order on the wire.
        let mut queue = self.shared.pending();
        if self.is_closed() || self.outgoing.send(Outgoing { pieces, done_when_written }).is_err() {
            return Err(self.shared.disconnected("the connection was closed"));
        }
        queue.push_back(Pending { correlation_id, api, version, deadline, room, reply });
        drop(queue);
        self.shared.touch();
        limits.metrics.requests_sent(1);
        Ok(receiver)
    }
}

/// Held by the connection's task: whatever ends that, a panic or the end of its runtime too, closes the connection, and
/// nobody waits on it for ever.
struct Ending(Arc<Shared>);

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
    mut read: OwnedReadHalf,
    mut write: OwnedWriteHalf,
    mut requests: mpsc::UnboundedReceiver<Outgoing>,
) {
    let shared = &ending.0;
    let writer = async {
        while let Some(Outgoing { pieces, done_when_written }) = requests.recv().await {
            if let Err(error) = write_pieces(&mut write, pieces).await {
                return shared.disconnected(&format!("sending failed: {error}"));
            }
            if let Some(correlation_id) = done_when_written {
                shared.written(correlation_id);
            }
        }
        shared.disconnected("the client closed the connection")
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
    let error = tokio::select! {
        error = writer => error,
        error = read_frames(shared, &mut read) => error,
        error = watch => error,
        () = shared.closing.notified() => shared.disconnected("the client closed the connection"),
    };
    if matches!(error, RequestError::TimedOut { .. }) {
        // The system would send on, for minutes, what did not get through: a commit that is repeated on another connection
        // would come again after later ones, and take the group back. Reset, it is thrown away.
        if let Err(error) = write.as_ref().set_zero_linger() {
            limits.log.record(Level::Debug, "connection", || format!("{}: not to be reset: {error}", shared.broker));
        }
        write.forget();
    }
    shared.close(&error);
}

/// Most pieces of one system call.
const MAX_SLICES: usize = 64;

async fn write_pieces(write: &mut OwnedWriteHalf, Pieces(pieces): Pieces) -> std::io::Result<()> {
    let mut pieces: VecDeque<Bytes> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
    while !pieces.is_empty() {
        let slices: Vec<IoSlice<'_>> = pieces.iter().take(MAX_SLICES).map(|piece| IoSlice::new(piece)).collect();
        let mut written = match write.write_vectored(&slices).await? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            written => written,
        };
        while written > 0 {
            let Some(first) = pieces.front_mut() else { break };
            let of_first = written.min(first.len());
            first.advance(of_first);
            written -= of_first;
            if first.is_empty() {
                pieces.pop_front();
            }
        }
    }
    Ok(())
}

async fn read_frames(shared: &Shared, read: &mut OwnedReadHalf) -> RequestError {
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

async fn read_frame(shared: &Shared, read: &mut OwnedReadHalf) -> Result<Frame, RequestError> {
    let broken = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => shared.disconnected("the broker closed the connection"),
        _ => shared.disconnected(&format!("receiving failed: {error}")),
    };
    let mut prefix = [0; 4];
    read.read_exact(&mut prefix).await.map_err(broken)?;
    let limits = &shared.limits;
    let length = match frame::frame_length(prefix, limits.receive_max_bytes) {
        Ok(length) => length,
        Err(error) => {
            let bytes = i32::from_be_bytes(prefix);
            if shared.may_be_too_large(bytes) {
                let mut correlation_id = [0; 4];
                read.read_exact(&mut correlation_id).await.map_err(broken)?;
                shared.tell_too_large(bytes, i32::from_be_bytes(correlation_id));
            }
            return Err(RequestError::Wire { broker: shared.broker.clone(), error });
        }
    };
    let admitted = shared.admit(length).await;
    let mut frame = limits.pool.try_take(length).map_err(|lack| {
        // The user waits for this answer, or for what comes of it, and would not know why it does not come.
        limits.log.record(Level::Warning, "connection", || format!("{}: {lack}", shared.broker));
        shared.disconnected(&format!("an answer could not be taken: {lack}"))
    })?;
    while frame.len() < length {
        let (filled, missing) = (frame.len(), length - frame.len());
        match read.read(&mut frame.spare_mut()[..missing]).await.map_err(broken)? {
            0 => return Err(shared.disconnected("the broker closed the connection in the middle of an answer")),
            more => frame.set_len(filled + more),
        }
    }
    limits.metrics.bytes_received(length as u64 + 4);
    Ok(Frame { bytes: frame, admitted })
}

impl Shared {
    fn pending(&self) -> std::sync::MutexGuard<'_, VecDeque<Pending>> {
        lock(&self.pending)
    }

    fn times(&self) -> std::sync::MutexGuard<'_, Times> {
        lock(&self.times)
    }

    fn touch(&self) {
        self.times().used_at = Instant::now();
    }

    /// No request is to go out for so long.
    fn throttle(&self, throttle_time_ms: i32) {
        let Some(wait) = u64::try_from(throttle_time_ms).ok().filter(|&ms| ms > 0).map(Duration::from_millis) else {
            return;
        };
        let until = Instant::now() + wait.min(LONGEST_THROTTLE);
        let mut times = self.times();
        times.throttled_until = times.throttled_until.max(Some(until));
        drop(times);
        self.limits.metrics.throttled(1);
        self.limits.log.record(Level::Info, "connection", || {
            format!("{}: a quota is exceeded; the next request goes in {} ms", self.broker, wait.as_millis())
        });
    }

    fn disconnected(&self, reason: &str) -> RequestError {
        RequestError::Disconnected { broker: self.broker.clone(), reason: reason.to_owned() }
    }

    /// Waits until an answer may be read that is larger than what was kept for it. The broker is done, so meanwhile no deadline
    /// counts, and after it all of this connection begin anew. None where enough was kept.
    async fn admit(&self, bytes: usize) -> Option<Admitted> {
        let larger = |room: &Room| bytes > room.kept_bytes;
        let room = self.pending().front().and_then(|first| first.room.clone().filter(larger))?;
        self.waits_for_room.store(true, Ordering::Release);
        let admitted = room.admit(bytes).await;
        let deadline = Instant::now() + self.limits.request_timeout;
        for pending in self.pending().iter_mut() {
            pending.deadline = pending.deadline.max(deadline);
        }
        self.waits_for_room.store(false, Ordering::Release);
        admitted
    }

    /// A request that is never answered is written, and done with that.
    fn written(&self, correlation_id: i32) {
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

    /// Whether a length that is not taken may be that of an answer, and not of what only looks like one: whoever answers
    /// the handshake with so much is no broker.
    fn may_be_too_large(&self, bytes: i32) -> bool {
        bytes > 0 && self.pending().front().is_some_and(|first| first.api != ApiKey::ApiVersions)
    }

    /// An answer that is too large would be so again: the one who asked for it is told which setting to change. Those behind
    /// it are to ask again.
    fn tell_too_large(&self, bytes: i32, correlation_id: i32) {
        let first = self.pending().pop_front_if(|first| first.correlation_id == correlation_id);
        let Some(first) = first else { return };
        let too_large = ClientError::AnswerTooLarge {
            broker: self.broker.clone(),
            api: first.api.name(),
            bytes: bytes.unsigned_abs() as usize,
            limit: self.limits.receive_max_bytes,
        };
        self.limits.log.record(Level::Warning, "connection", || too_large.to_string());
        let _ = first.reply.send(Err(RequestError::Fatal(Box::new(too_large))));
    }

    /// Hands an answer to its waiter. Brokers answer in order, so any other correlation id means that one side lost count.
    fn answer(&self, frame: Frame) -> Result<(), RequestError> {
        let wire = |error| RequestError::Wire { broker: self.broker.clone(), error };
        let correlation_id = frame::correlation_id(frame.as_slice()).map_err(wire)?;
        let waiting = self.pending().pop_front_if(|pending| pending.correlation_id == correlation_id);
        // One that waits for another answer stays in the queue: it is told why the connection ends.
        let Some(pending) = waiting else {
            return Err(
                self.disconnected(&format!("an answer came with the unexpected correlation id {correlation_id}"))
            );
        };
        self.touch();
        if pending.api != ApiKey::ApiVersions {
            self.served.store(true, Ordering::Release);
        }
        if let Some(throttle_time_ms) = frame::throttle_time_ms(pending.api, pending.version, frame.as_slice()) {
            self.throttle(throttle_time_ms);
        }
        self.limits.metrics.responses_received(1);
        self.limits.log.record(Level::Debug, "connection", || {
            format!("{}: answer to {}, #{correlation_id}, {} bytes", self.broker, pending.api.name(), frame.len())
        });
        // A waiter that is gone was cancelled: its answer is discarded, and the connection goes on.
        let _ = pending.reply.send(Ok(frame));
        Ok(())
    }

    fn overdue(&self) -> Option<RequestError> {
        let now = Instant::now();
        let pending = self.pending();
        match pending.front() {
            Some(oldest) if oldest.deadline <= now && !self.waits_for_room.load(Ordering::Acquire) => {
                Some(RequestError::TimedOut { broker: self.broker.clone(), after: self.limits.request_timeout })
            }
            Some(_) => None,
            None => {
                let used_at = self.times().used_at;
                (now.duration_since(used_at) >= self.limits.max_idle).then(|| self.disconnected("idle"))
            }
        }
    }

    fn close(&self, error: &RequestError) {
        let waiting = {
            let mut pending = self.pending();
            self.times().ended_at = Some(Instant::now());
            self.closed.store(true, Ordering::Release);
            std::mem::take(&mut *pending)
        };
        self.ended.notify_waiters();
        self.limits.metrics.connections_closed(1);
        self.limits
            .log
            .record(Level::Info, "connection", || format!("closed: {error}; {} requests were waiting", waiting.len()));
        for pending in waiting {
            let _ = pending.reply.send(Err(error.clone()));
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
