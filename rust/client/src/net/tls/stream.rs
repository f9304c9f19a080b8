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

/// How many of the first bytes are kept. They show which protocol a peer without TLS speaks.
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
}

impl Wire {
    pub(super) fn new(stream: TcpStream, buffer_bytes: usize) -> Self {
        let buffer = vec![0; buffer_bytes].into_boxed_slice();
        Self { stream, buffer, start: 0, end: 0, first: [0; FIRST], first_count: 0 }
    }

    /// The first bytes that were received.
    pub(super) fn first_bytes(&self) -> &[u8] {
        &self.first[..self.first_count]
    }

    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut space))?;
        (self.start, self.end) = (0, space.filled().len());
        let more = self.end.min(FIRST - self.first_count);
        self.first[self.first_count..self.first_count + more].copy_from_slice(&self.buffer[..more]);
        self.first_count += more;
        Poll::Ready(Ok(()))
    }
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
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
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
type Shared = Arc<Mutex<TlsStream>>;

/// The half that is read from.
pub(crate) struct TlsReadHalf(Shared);

/// The half that is written to.
pub(crate) struct TlsWriteHalf(Shared);

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
