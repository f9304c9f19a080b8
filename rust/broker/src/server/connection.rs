//! One connection: a frame in, its answer out, the next frame.

use std::io::{self, IoSlice};

use bytes::{Buf, Bytes, BytesMut};
use monedula_protocol::frame::frame_length;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::shared::Shared;
use crate::cluster::NodeId;
use crate::core::Action;

/// What is read at once when more is there: several small requests, or a part of a large one.
const READ_BYTES: usize = 64 * 1024;

/// Serves a connection until either side closes it.
pub(super) async fn serve(shared: Shared, node: NodeId, stream: impl AsyncRead + AsyncWrite + Unpin, host: String) {
    let (id, mut replies) = shared.connected(node, &host);
    let max_bytes = shared.with(|core, _| core.settings.kafka.socket_request_max_bytes.max(0) as usize);
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut buffer = BytesMut::new();
    let closed = async {
        while let Some(frame) = read_frame(&mut reader, &mut buffer, max_bytes).await? {
            shared.request(id, &frame);
            match replies.recv().await {
                Some(Action::Send(pieces)) => write_all(&mut writer, pieces).await?,
                Some(Action::Nothing) => {}
                Some(Action::Close(reason)) => return Err(io::Error::other(reason)),
                None => break,
            }
        }
        Ok(())
    };
    if let Err(error) = closed.await {
        log::info!("connection of {host} to node {node} is closed: {error}");
    }
    shared.disconnected(id);
}

/// The next frame without its length, `None` where the client closed between two.
async fn read_frame(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    max_bytes: usize,
) -> io::Result<Option<Bytes>> {
    loop {
        if let Some(&prefix) = buffer.first_chunk::<4>() {
            let length = frame_length(prefix, max_bytes).map_err(io::Error::other)?;
            if buffer.len() >= 4 + length {
                buffer.advance(4);
                return Ok(Some(buffer.split_to(length).freeze()));
            }
        }
        buffer.reserve(READ_BYTES);
        if reader.read_buf(buffer).await? == 0 {
            return match buffer.is_empty() {
                true => Ok(None),
                false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the client closed within a request")),
            };
        }
    }
}

async fn write_all(writer: &mut (impl AsyncWrite + Unpin), pieces: Vec<Bytes>) -> io::Result<()> {
    let mut rest: &mut [IoSlice<'_>] = &mut pieces.iter().map(|piece| IoSlice::new(piece)).collect::<Vec<_>>();
    while !rest.is_empty() {
        let written = writer.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    writer.flush().await
}
