//! One client connection: it reads a frame, writes its answer, then reads the next frame.

use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use monedula_protocol::frame::frame_length;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_rustls::server::TlsStream;

use super::shared::Shared;
use crate::cluster::NodeId;
use crate::request::{Action, ConnectionId, Wire};
use crate::security::{Principal, SecurityProtocol};

/// The size of a read for a new request. It is small, because every idle connection has a buffer of that size.
const READ_BYTES: usize = 8 * 1024;
/// The limit on bytes that are read ahead while a request is in work. Only a read notices that the client has
/// disconnected.
const AHEAD_BYTES: usize = 64 * 1024;

/// The transport of a connection. It is shut down in order at its end, which in TLS is a message of its own.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Ends the connection so that the client sees an error (RST), not the end of the stream.
    fn reset(self);
}

impl Transport for TcpStream {
    fn reset(self) {
        // If this fails, the connection is closed normally.
        let _ = self.set_zero_linger();
    }
}

impl Transport for TlsStream<TcpStream> {
    fn reset(self) {
        self.into_inner().0.reset();
    }
}

impl Transport for DuplexStream {
    fn reset(self) {}
}

enum ConnectionEnd {
    /// The client closed it.
    Client,
    /// The broker closes it, for a reason.
    Broker(String),
    /// A fault resets it.
    Reset,
}

/// Serves a connection until either side closes it.
pub(super) async fn serve(
    shared: Shared,
    node: NodeId,
    protocol: SecurityProtocol,
    mut stream: impl Transport,
    host: String,
    principal: Option<Principal>,
) {
    let (id, replies) = shared.connected(node, &host, protocol, principal);
    let max_idle = max_idle(&shared);
    let (max_bytes, may_grow) = (shared.with(|core, _| core.max_frame_bytes(id)), protocol.has_sasl());
    let mut connection = Connection {
        // Notifies the core of the connection's end when it is dropped, also with the task when the broker is dropped.
        registered: Registered { shared, id },
        replies,
        buffer: BytesMut::new(),
        max_bytes,
        may_grow,
        max_idle,
    };
    let end = connection.run(&mut stream).await;
    // The end of a connection that breaks cannot be told.
    if matches!(end, Ok(ConnectionEnd::Broker(_))) {
        let _ = stream.shutdown().await;
    }
    match end {
        Ok(ConnectionEnd::Client) => log::debug!("connection of {host} to node {node} is closed by the client"),
        Ok(ConnectionEnd::Broker(reason)) => log::info!("connection of {host} to node {node} is closed: {reason}"),
        Ok(ConnectionEnd::Reset) => {
            log::info!("connection of {host} to node {node} is reset by a fault");
            stream.reset();
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            log::warn!("connection of {host} to node {node} is closed: {error}");
        }
        Err(error) => log::info!("connection of {host} to node {node} broke: {error}"),
    }
}

/// The longest time for which a connection may be idle; `None` for no limit.
pub(super) fn max_idle(shared: &Shared) -> Option<Duration> {
    let max_idle_ms = shared.with(|core, _| core.settings.kafka.connections_max_idle_ms);
    u64::try_from(max_idle_ms).ok().map(Duration::from_millis)
}

/// Holds a connection open without reading from it or writing to it, until the core closes it or it was idle for too
/// long.
pub(super) async fn stay_silent(
    shared: Shared,
    node: NodeId,
    protocol: SecurityProtocol,
    _stream: TcpStream,
    host: String,
) {
    let (id, mut replies) = shared.connected(node, &host, protocol, None);
    let max_idle = max_idle(&shared);
    let _registered = Registered { shared, id };
    tokio::select! {
        _ = replies.recv() => {}
        () = idle(max_idle) => {}
    }
}

struct Registered {
    shared: Shared,
    id: ConnectionId,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.disconnected(self.id);
    }
}

struct Connection {
    registered: Registered,
    replies: UnboundedReceiver<Action>,
    /// The bytes that were read and not handled yet.
    buffer: BytesMut,
    max_bytes: usize,
    /// True if `max_bytes` changes when the client has logged in.
    may_grow: bool,
    /// `None` for no limit.
    max_idle: Option<Duration>,
}

impl Connection {
    async fn run(&mut self, stream: &mut impl Transport) -> io::Result<ConnectionEnd> {
        loop {
            let frame = match self.next_frame(stream).await? {
                Ok(frame) => frame,
                Err(end) => return Ok(end),
            };
            self.registered.shared.request(self.registered.id, frame);
            let action = match self.answer(stream).await? {
                Ok(action) => action,
                Err(end) => return Ok(end),
            };
            if self.may_grow {
                self.max_bytes = self.registered.shared.with(|core, _| core.max_frame_bytes(self.registered.id));
            }
            let wrote = match action {
                Action::Send(pieces) => self.write(write_all(stream, &pieces)).await?,
                Action::Wire(pieces, wire) => self.write(write_as(stream, &pieces, wire)).await?,
                Action::Nothing => None,
                Action::Close(reason) => Some(ConnectionEnd::Broker(reason)),
                Action::Refuse(pieces, delay_ms, reason) => {
                    self.write(write_late(stream, &pieces, delay_ms)).await?.or(Some(ConnectionEnd::Broker(reason)))
                }
                Action::Reset => Some(ConnectionEnd::Reset),
                Action::Deaf => Some(self.stay_deaf().await),
            };
            if let Some(end) = wrote {
                return Ok(end);
            }
        }
    }

    /// The next frame without its length field, or the end of the connection.
    async fn next_frame(&mut self, stream: &mut impl Transport) -> io::Result<Result<Bytes, ConnectionEnd>> {
        loop {
            let wanted = match self.buffer.first_chunk::<4>() {
                Some(&prefix) => {
                    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                    let length = frame_length(prefix, self.max_bytes).map_err(invalid)?;
                    if self.buffer.len() >= 4 + length {
                        self.buffer.advance(4);
                        return Ok(Ok(self.buffer.split_to(length).freeze()));
                    }
                    4 + length - self.buffer.len()
                }
                None => READ_BYTES,
            };
            // The buffer at most doubles: a length field alone, which may be false, allocates little memory, and a
            // frame that grows is copied once each time it doubles.
            self.buffer.reserve(wanted.min(self.buffer.len()).max(READ_BYTES));
            tokio::select! {
                read = stream.read_buf(&mut self.buffer) => match read? {
                    0 if self.buffer.is_empty() => return Ok(Err(ConnectionEnd::Client)),
                    0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the client closed within a request")),
                    _ => {}
                },
                action = self.replies.recv() => return Ok(Err(closing(action))),
                () = idle(self.max_idle) => return Ok(Err(ConnectionEnd::Broker("it was idle for too long".to_owned()))),
            }
        }
    }

    /// The core's action for the present request, or how the connection ends meanwhile.
    async fn answer(&mut self, stream: &mut impl Transport) -> io::Result<Result<Action, ConnectionEnd>> {
        loop {
            // Most requests are answered at once.
            if let Ok(action) = self.replies.try_recv() {
                return Ok(Ok(action));
            }
            if self.buffer.len() < AHEAD_BYTES {
                self.buffer.reserve(READ_BYTES);
            }
            tokio::select! {
                biased;
                action = self.replies.recv() => {
                    return Ok(action.ok_or_else(|| ConnectionEnd::Broker("the broker stops".to_owned())));
                }
                read = stream.read_buf(&mut self.buffer), if self.buffer.len() < AHEAD_BYTES => {
                    if read? == 0 {
                        return Ok(Err(ConnectionEnd::Client));
                    }
                }
            }
        }
    }

    /// Writes an answer, unless the core ends the connection meanwhile.
    async fn write(
        &mut self,
        writing: impl Future<Output = io::Result<Option<ConnectionEnd>>>,
    ) -> io::Result<Option<ConnectionEnd>> {
        tokio::select! {
            biased;
            wrote = writing => wrote,
            action = self.replies.recv() => Ok(Some(closing(action))),
        }
    }

    /// Neither reads nor writes until the core closes the connection, or it was idle for too long.
    async fn stay_deaf(&mut self) -> ConnectionEnd {
        tokio::select! {
            action = self.replies.recv() => closing(action),
            () = idle(self.max_idle) => ConnectionEnd::Broker("it was idle for too long".to_owned()),
        }
    }
}

/// The end of the connection after an action that does not answer a request.
fn closing(action: Option<Action>) -> ConnectionEnd {
    match action {
        Some(Action::Close(reason)) => ConnectionEnd::Broker(reason),
        Some(Action::Reset) => ConnectionEnd::Reset,
        _ => ConnectionEnd::Broker("the broker stops".to_owned()),
    }
}

pub(super) async fn idle(max_idle: Option<Duration>) {
    match max_idle {
        Some(max_idle) => tokio::time::sleep(max_idle).await,
        None => std::future::pending().await,
    }
}

/// Writes an answer with the effects of a fault.
async fn write_as(stream: &mut impl Transport, pieces: &[Bytes], wire: Wire) -> io::Result<Option<ConnectionEnd>> {
    let mut frame = Bytes::from(pieces.concat());
    if let Some(bytes) = wire.cut_after {
        frame.truncate(bytes);
    }
    match wire.fragment {
        Some((bytes, pause_ms)) => {
            for fragment in frame.chunks(bytes.max(1)) {
                stream.write_all(fragment).await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
        }
        None => stream.write_all(&frame).await?,
    }
    if wire.cut_after.is_some() {
        return Ok(Some(ConnectionEnd::Broker("a fault cut its answer off".to_owned())));
    }
    tokio::time::sleep(Duration::from_millis(wire.pause_ms)).await;
    Ok(None)
}

/// Writes the answer to a login that failed. It comes late, so that guessing passwords takes time.
async fn write_late(stream: &mut impl Transport, pieces: &[Bytes], delay_ms: u64) -> io::Result<Option<ConnectionEnd>> {
    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    write_all(stream, pieces).await
}

async fn write_all(stream: &mut impl Transport, pieces: &[Bytes]) -> io::Result<Option<ConnectionEnd>> {
    let mut rest: &mut [IoSlice<'_>] = &mut pieces.iter().map(|piece| IoSlice::new(piece)).collect::<Vec<_>>();
    while !rest.is_empty() {
        let written = stream.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    stream.flush().await?;
    Ok(None)
}
