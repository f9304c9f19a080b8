//! The answer as a frame in pieces: record bytes are handed on as they lie in the log.
//!
//! This writes Fetch responses by hand, because the codec's would copy every record. A test holds the two against each other in
//! all versions.

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::wire::Writer;

use super::Fetched;
use crate::cluster::Node;
use crate::core::Ticket;
use crate::log::{Chunk, Piece};

/// Pieces below this are copied: a piece of its own costs more.
const COPY_BELOW_BYTES: usize = 4096;

/// A whole frame with its length.
pub(super) fn encode(
    ticket: Ticket,
    error: ErrorCode,
    session_id: i32,
    fetched: &[Fetched],
    endpoints: &[Node],
) -> Vec<Bytes> {
    let version = ticket.version;
    let flexible = version >= 12;
    let mut frame = Frame { flexible, ..Frame::default() };
    // The length, which is known at the end.
    frame.tail.i32(0);
    frame.tail.i32(ticket.correlation_id);
    frame.no_tags();
    // Throttle time.
    frame.tail.i32(0);
    if version >= 7 {
        frame.tail.i16(error.code());
        frame.tail.i32(session_id);
    }
    let topics: Vec<&[Fetched]> = fetched.chunk_by(same_topic).collect();
    frame.count(topics.len());
    for partitions in topics {
        if version >= 13 {
            frame.tail.uuid(partitions[0].topic_id);
        } else {
            frame.text(partitions[0].topic.as_deref().unwrap_or_default());
        }
        frame.count(partitions.len());
        partitions.iter().for_each(|partition| frame.partition(version, partition));
        frame.no_tags();
    }
    frame.endpoints(endpoints);
    frame.finish()
}

fn same_topic(left: &Fetched, right: &Fetched) -> bool {
    left.topic_id == right.topic_id && left.topic == right.topic
}

#[derive(Default)]
struct Frame {
    flexible: bool,
    pieces: Vec<Bytes>,
    /// What comes before all pieces, kept open because the length is in it.
    head: Option<Vec<u8>>,
    tail: Writer,
    bytes: usize,
}

impl Frame {
    fn count(&mut self, count: usize) {
        if self.flexible { self.tail.unsigned_varint(count as u32 + 1) } else { self.tail.i32(count as i32) }
    }

    fn text(&mut self, text: &str) {
        if self.flexible {
            self.tail.unsigned_varint(text.len() as u32 + 1);
        } else {
            self.tail.i16(text.len() as i16);
        }
        self.tail.bytes(text.as_bytes());
    }

    fn no_tags(&mut self) {
        if self.flexible {
            self.tail.unsigned_varint(0);
        }
    }

    fn partition(&mut self, version: i16, partition: &Fetched) {
        self.tail.i32(partition.index);
        self.tail.i16(partition.error.code());
        self.tail.i64(partition.high_watermark);
        self.tail.i64(partition.last_stable_offset);
        if version >= 5 {
            self.tail.i64(partition.log_start_offset);
        }
        match &partition.aborted {
            None if self.flexible => self.tail.unsigned_varint(0),
            None => self.tail.i32(-1),
            Some(aborted) => {
                self.count(aborted.len());
                for aborted in aborted {
                    self.tail.i64(aborted.producer_id);
                    self.tail.i64(aborted.first_offset);
                    self.no_tags();
                }
            }
        }
        if version >= 11 {
            self.tail.i32(partition.preferred.map_or(-1, |node| node.0));
        }
        self.records(&partition.chunk);
        if self.flexible {
            self.partition_tags(partition);
        }
    }

    fn partition_tags(&mut self, partition: &Fetched) {
        let tags = [partition.diverging.is_some(), partition.current_leader.is_some()];
        self.tail.unsigned_varint(tags.into_iter().map(u32::from).sum());
        if let Some((epoch, end_offset)) = partition.diverging {
            self.tail.unsigned_varint(0);
            self.tail.unsigned_varint(4 + 8 + 1);
            self.tail.i32(epoch);
            self.tail.i64(end_offset);
            self.no_tags();
        }
        if let Some((leader_id, leader_epoch)) = partition.current_leader {
            self.tail.unsigned_varint(1);
            self.tail.unsigned_varint(4 + 4 + 1);
            self.tail.i32(leader_id);
            self.tail.i32(leader_epoch);
            self.no_tags();
        }
    }

    fn records(&mut self, chunk: &Chunk) {
        self.count(chunk.bytes);
        for piece in &chunk.pieces {
            match piece {
                Piece::Shared(bytes) if bytes.len() >= COPY_BELOW_BYTES => {
                    self.flush();
                    self.bytes += bytes.len();
                    self.pieces.push(bytes.clone());
                }
                piece => self.tail.bytes(piece.as_slice()),
            }
        }
    }

    fn endpoints(&mut self, endpoints: &[Node]) {
        if !self.flexible {
            return;
        }
        if endpoints.is_empty() {
            return self.no_tags();
        }
        let outer = std::mem::take(&mut self.tail);
        self.count(endpoints.len());
        for node in endpoints {
            self.tail.i32(node.id.0);
            self.text(&node.host);
            self.tail.i32(node.port.into());
            match &node.rack {
                Some(rack) => self.text(rack),
                None => self.tail.unsigned_varint(0),
            }
            self.no_tags();
        }
        let content = std::mem::replace(&mut self.tail, outer).into_bytes();
        self.tail.unsigned_varint(1);
        self.tail.unsigned_varint(0);
        self.tail.unsigned_varint(content.len() as u32);
        self.tail.bytes(&content);
    }

    fn flush(&mut self) {
        let tail = std::mem::take(&mut self.tail).into_bytes();
        self.bytes += tail.len();
        if self.head.is_none() {
            self.head = Some(tail);
        } else if !tail.is_empty() {
            self.pieces.push(tail.into());
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.flush();
        let mut head = self.head.unwrap_or_default();
        let length = (self.bytes - 4) as i32;
        head[..4].copy_from_slice(&length.to_be_bytes());
        self.pieces.insert(0, head.into());
        self.pieces
    }
}
