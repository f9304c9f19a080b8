//! Frames of a connection: requests in pieces, answers in buffers of the pool.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Deref;
use std::time::Duration;

use bytes::{Buf, Bytes};
use monedula_columns::PooledVec;
use tokio::io::AsyncWriteExt;

use crate::budget::{Admitted, Room};
use crate::error::RequestError;
use crate::net::transport::WriteHalf;

/// An answer, without its length prefix.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(super) bytes: PooledVec,
    pub(super) admitted: Option<Admitted>,
}

impl Frame {
    /// Bytes that the budget is charged with for it, beside the room that was kept.
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

/// Expectations of an answer when its request is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Time beyond `request.timeout.ms`: as long as the broker is asked to wait.
    pub(crate) extra: Duration,
    /// Memory that was kept for it. A larger answer is read when the budget has room.
    pub(crate) room: Option<Room>,
}

impl From<Duration> for Expected {
    fn from(extra: Duration) -> Self {
        Self { extra, room: None }
    }
}

/// The answer to a request, or the reason that there is none.
pub(crate) type Reply = Result<Frame, RequestError>;

/// A request in pieces, written in their order without being put together.
pub(crate) struct Pieces(pub(crate) Vec<Bytes>);

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        Self(vec![bytes.into()])
    }
}

/// Most pieces of one system call.
const MAX_SLICES: usize = 64;

/// Writes all pieces, many with one system call.
pub(super) async fn write_pieces(write: &mut WriteHalf, Pieces(pieces): Pieces) -> std::io::Result<()> {
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
    // Encrypted bytes may wait below; without TLS this does nothing.
    write.flush().await
}
