//! Encodes a Fetch response as a frame in pieces, so that record bytes are sent from the log without a copy.
//!
//! The response is encoded by hand, because the generated codec would copy every record. A test compares both in all
//! versions.

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::wire::Writer;

use super::Fetched;
use crate::cluster::Node;
use crate::log::{Chunk, Piece};
use crate::request::Ticket;

/// Smaller pieces are copied into the piece before: a piece of its own costs more.
const COPY_BELOW_BYTES: usize = 4096;

/// Encodes a whole frame with its length.
pub(crate) fn encode(
    ticket: Ticket,
    throttle_time_ms: i32,
    (error, session_id): (ErrorCode, i32),
    fetched: &[Fetched],
    endpoints: &[Node],
) -> Vec<Bytes> {
    let version = ticket.version;
    let flexible = version >= 12;
    let mut frame = Frame { flexible, ..Frame::default() };
    // A placeholder for the frame length.
    frame.tail.i32(0);
    frame.tail.i32(ticket.correlation_id);
    frame.no_tags();
    frame.tail.i32(throttle_time_ms);
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
    /// The first piece, kept apart because the frame length at its start is written last.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use monedula_protocol::frame::encode_response;
    use monedula_protocol::messages::fetch::{
        AbortedTransaction, EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
        NodeEndpoint, PartitionData,
    };
    use monedula_protocol::types::Uuid;

    use super::*;
    use crate::cluster::NodeId;
    use crate::log::Aborted;
    use crate::request::ConnectionId;

    /// Partitions with all fields set, some set, and none set.
    fn fetched(version: i16) -> Vec<Fetched> {
        let wanted = |topic: &str, id, index| super::super::Wanted {
            topic: Some(topic.into()),
            topic_id: if version >= 13 { Uuid([id; 16]) } else { Uuid::ZERO },
            index,
            fetch_offset: 0,
            max_bytes: 0,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            refused: None,
        };
        let plain = |topic, id, index| Fetched::failed(&wanted(topic, id, index), ErrorCode::None);
        let header = [9; 61];
        let records = |payload: usize| Chunk {
            pieces: vec![Piece::Header(header, 61), Piece::Shared(vec![7; payload].into()), Piece::Header(header, 5)],
            bytes: 61 + payload + 5,
            next_offset: 0,
        };
        let flexible = version >= 12;
        vec![
            Fetched {
                high_watermark: 1,
                last_stable_offset: 2,
                log_start_offset: 3,
                diverging: flexible.then_some((4, 5)),
                current_leader: flexible.then_some((6, 7)),
                aborted: Some(vec![Aborted { producer_id: 8, first_offset: 9, last_offset: 10 }]),
                preferred: (version >= 11).then_some(NodeId(3)),
                chunk: records(COPY_BELOW_BYTES),
                ..plain("one", 1, 0)
            },
            Fetched { error: ErrorCode::OffsetOutOfRange, ..plain("one", 1, 1) },
            Fetched { aborted: Some(Vec::new()), chunk: records(100_000), ..plain("two", 2, 0) },
            Fetched { chunk: records(10), diverging: flexible.then_some((1, 1)), ..plain("two", 2, 5) },
        ]
    }

    fn by_codec(ticket: Ticket, session_id: i32, fetched: &[Fetched], endpoints: &[Node]) -> Vec<u8> {
        let records: Vec<Vec<u8>> = fetched
            .iter()
            .map(|one| one.chunk.pieces.iter().flat_map(|piece| piece.as_slice()).copied().collect())
            .collect();
        let partition = |one: &Fetched, records| PartitionData {
            partition_index: one.index,
            error_code: one.error.code(),
            high_watermark: one.high_watermark,
            last_stable_offset: one.last_stable_offset,
            log_start_offset: one.log_start_offset,
            diverging_epoch: one.diverging.map_or_else(EpochEndOffset::default, |(epoch, end_offset)| EpochEndOffset {
                epoch,
                end_offset,
                ..Default::default()
            }),
            current_leader: one.current_leader.map_or_else(LeaderIdAndEpoch::default, |(leader_id, leader_epoch)| {
                LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() }
            }),
            aborted_transactions: one.aborted.as_ref().map(|aborted| {
                let aborted = aborted.iter().map(|one| AbortedTransaction {
                    producer_id: one.producer_id,
                    first_offset: one.first_offset,
                    ..Default::default()
                });
                aborted.collect()
            }),
            preferred_read_replica: one.preferred.map_or(-1, |node| node.0),
            records: Some(records),
            ..Default::default()
        };
        let mut all = fetched.iter().zip(&records).map(|(one, records)| partition(one, records.as_slice()));
        let topic = |index: usize, partitions| FetchableTopicResponse {
            topic: fetched[index].topic.as_deref().unwrap(),
            topic_id: fetched[index].topic_id,
            partitions,
            ..Default::default()
        };
        let responses = vec![topic(0, all.by_ref().take(2).collect()), topic(2, all.collect())];
        let node_endpoints = endpoints.iter().map(|node| NodeEndpoint {
            node_id: node.id.0,
            host: &node.host,
            port: node.port.into(),
            rack: node.rack.as_deref(),
            ..Default::default()
        });
        let node_endpoints = node_endpoints.collect();
        let response =
            FetchResponse { throttle_time_ms: 250, session_id, responses, node_endpoints, ..Default::default() };
        encode_response::<FetchRequest<'_>>(&response, ticket.version, ticket.correlation_id).unwrap()
    }

    #[test]
    fn an_answer_is_what_the_codec_would_write() {
        let node = |id, rack: Option<&str>| Node {
            id: NodeId(id),
            host: "localhost".into(),
            port: 9092,
            other_ports: Default::default(),
            rack: rack.map(Into::into),
            alive: true,
        };
        for version in 4..=18 {
            let ticket = Ticket { connection: ConnectionId(1), version, correlation_id: 77 };
            let endpoints = if version >= 16 { vec![node(1, None), node(2, Some("r"))] } else { Vec::new() };
            let fetched = fetched(version);
            let session_id = if version >= 7 { 5 } else { 0 };
            for endpoints in [&endpoints[..], &[]] {
                let pieces = encode(ticket, 250, (ErrorCode::None, session_id), &fetched, endpoints);
                assert!(pieces.len() > 2, "large records are pieces of their own");
                assert_eq!(pieces.concat(), by_codec(ticket, session_id, &fetched, endpoints), "version {version}");
            }
        }
    }
}
