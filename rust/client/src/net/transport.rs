//! A connected socket, with or without TLS, and its two halves for the connection's task.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::tls::{self, TlsReadHalf, TlsStream, TlsWriteHalf};

/// A connected socket.
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// The half that answers are read from.
pub(crate) enum ReadHalf {
    Plain(OwnedReadHalf),
    Tls(TlsReadHalf),
}

/// The half that requests are written to.
pub(crate) enum WriteHalf {
    Plain(OwnedWriteHalf),
    Tls(TlsWriteHalf),
}

impl From<TcpStream> for Transport {
    fn from(stream: TcpStream) -> Self {
        Self::Plain(stream)
    }
}

impl Transport {
    pub(crate) fn split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Plain(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Plain(read), WriteHalf::Plain(write))
            }
            Self::Tls(stream) => {
                let (read, write) = tls::split(*stream);
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
        }
    }
}

impl WriteHalf {
    /// Tells the broker that the connection ends in order: by close_notify of TLS, or else by closing the socket.
    pub(crate) async fn close(mut self) -> io::Result<()> {
        match &mut self {
            Self::Plain(_) => Ok(()),
            Self::Tls(write) => write.shutdown().await,
        }
    }

    /// Discards what is not sent yet, and resets the broker's side when the socket is closed.
    pub(crate) fn reset(self) -> io::Result<()> {
        match self {
            Self::Plain(write) => {
                let set = write.as_ref().set_zero_linger();
                // An orderly end of TLS would be sent before the reset.
                write.forget();
                set
            }
            Self::Tls(write) => write.set_zero_linger(),
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(read) => Pin::new(read).poll_read(context, into),
            Self::Tls(read) => Pin::new(read).poll_read(context, into),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(write) => Pin::new(write).poll_write(context, bytes),
            Self::Tls(write) => Pin::new(write).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(write) => Pin::new(write).poll_write_vectored(context, slices),
            Self::Tls(write) => Pin::new(write).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(write) => Pin::new(write).poll_flush(context),
            Self::Tls(write) => Pin::new(write).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(write) => Pin::new(write).poll_shutdown(context),
            Self::Tls(write) => Pin::new(write).poll_shutdown(context),
        }
    }
}
