//! An encrypted connection: below rustls, ciphertext is read in large pieces; above it, there are two halves, to read
//! from and to write to.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::TlsStream;
use crate::lock::lock;

/// Number of the first bytes that are kept. They show which protocol a peer without TLS speaks.
const FIRST: usize = 8;

/// The socket below rustls. rustls reads 4 KiB at a time; here each system call reads all that is there.
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Box<[u8]>,
    /// The range of the bytes that rustls has not read yet.
    start: usize,
    end: usize,
    first: [u8; FIRST],
    first_count: usize,
    records: Records,
    /// Reason that nothing can be written any more; not told before everything is read that the broker has sent.
    write_error: Option<io::Error>,
}

/// The broker's side ended within a record of TLS: the connection was cut, and not closed.
#[derive(Debug, thiserror::Error)]
#[error("the connection was cut in the middle of a record of TLS")]
pub(crate) struct CutRecord;

/// Ends of TLS records in the bytes that come.
#[derive(Default)]
struct Records {
    header: [u8; 5],
    header_count: usize,
    /// Bytes of the record's body that have not come.
    body_left: usize,
}

impl Records {
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let wanted = if self.body_left > 0 { self.body_left } else { self.header.len() - self.header_count };
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if self.body_left > 0 {
                self.body_left -= taken.len();
                continue;
            }
            self.header[self.header_count..self.header_count + taken.len()].copy_from_slice(taken);
            self.header_count += taken.len();
            if self.header_count == self.header.len() {
                self.header_count = 0;
                self.body_left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            }
        }
    }

    fn is_within_one(&self) -> bool {
        self.header_count > 0 || self.body_left > 0
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream, buffer_bytes: usize) -> Self {
        let buffer = vec![0; buffer_bytes].into_boxed_slice();
        let (records, write_error) = (Records::default(), None);
        Self { stream, buffer, start: 0, end: 0, first: [0; FIRST], first_count: 0, records, write_error }
    }

    pub(super) fn first_bytes(&self) -> &[u8] {
        &self.first[..self.first_count]
    }

    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = ReadBuf::new(&mut self.buffer);
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut space));
        (self.start, self.end) = (0, space.filled().len());
        if (read.is_err() || self.end == 0)
            && let Some(error) = self.write_error.take()
        {
            return Poll::Ready(Err(error));
        }
        read?;
        if self.end == 0 && self.records.is_within_one() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, CutRecord)));
        }
        self.records.pass(&self.buffer[..self.end]);
        let more = self.end.min(FIRST - self.first_count);
        self.first[self.first_count..self.first_count + more].copy_from_slice(&self.buffer[..more]);
        self.first_count += more;
        Poll::Ready(Ok(()))
    }

    /// A broker that refuses a certificate says so and closes. Its words may still be unread when a write fails, and
    /// count first. So `bytes` that cannot be written are dropped, as if lost on their way, and the reader tells the
    /// error once there is nothing more to read. (rustls reads nothing during a handshake while a write is due.)
    fn dropped(
        &mut self,
        written: Poll<io::Result<usize>>,
        bytes: usize,
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Err(error)) if is_closed(&error) => {
                self.write_error = Some(error);
                context.waker().wake_by_ref();
                Poll::Ready(Ok(bytes))
            }
            written => written,
        }
    }
}

/// True if the broker has closed the connection: what it sent before can still be read.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};

    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.start == this.end {
            ready!(this.fill(context))?;
        }
        let taken = into.remaining().min(this.end - this.start);
        into.put_slice(&this.buffer[this.start..this.start + taken]);
        this.start += taken;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.write_error.is_some() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.dropped(written, bytes.len(), context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        if this.write_error.is_some() {
            return Poll::Ready(Ok(bytes));
        }
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.dropped(written, bytes, context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// Both halves belong to one task, so nobody ever waits for this lock.
type SharedTlsStream = Arc<Mutex<TlsStream>>;

pub(crate) struct TlsReadHalf(SharedTlsStream);

pub(crate) struct TlsWriteHalf(SharedTlsStream);

/// The two halves of a connection, for one task.
pub(crate) fn split(stream: TlsStream) -> (TlsReadHalf, TlsWriteHalf) {
    let shared = Arc::new(Mutex::new(stream));
    (TlsReadHalf(shared.clone()), TlsWriteHalf(shared))
}

impl TlsWriteHalf {
    /// Makes closing the socket discard unsent bytes and reset the connection.
    pub(crate) fn set_zero_linger(&self) -> io::Result<()> {
        lock(&self.0).get_ref().0.stream.set_zero_linger()
    }
}

impl AsyncRead for TlsReadHalf {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_read(context, into)
    }
}

impl AsyncWrite for TlsWriteHalf {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_shutdown(context)
    }
}
