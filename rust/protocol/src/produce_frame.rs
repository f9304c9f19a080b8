//! Encodes a Produce request without copying its records: the bytes around the records, and the positions at which the
//! records must be inserted. The caller writes both to the socket in turn.

use crate::api::{ApiKey, Message, Request, check_version};
use crate::error::WireError;
use crate::frame::request_header_version;
use crate::messages::header::RequestHeader;
use crate::messages::produce::ProduceRequest;
use crate::records::BATCH_HEADER_BYTES;
use crate::types::Uuid;
use crate::wire::Writer;

/// The fields of a Produce request, without the records.
#[derive(Clone, Copy, Debug)]
pub struct ProduceFrame<'a> {
    /// The transactional id; `None` for a producer without transactions.
    pub transactional_id: Option<&'a str>,
    /// The replicas that must have the records before the broker responds: 0 none, 1 the leader, -1 all in-sync
    /// replicas.
    pub acks: i16,
    /// Longest time that the broker waits for these replicas, in milliseconds.
    pub timeout_ms: i32,
    /// The batches by topic.
    pub topics: &'a [TopicBatches<'a>],
}

/// The batches of one topic.
#[derive(Clone, Debug)]
pub struct TopicBatches<'a> {
    /// The topic's name, sent up to version 12.
    pub name: &'a str,
    /// The topic's id, sent from version 13.
    pub id: Uuid,
    /// One batch per partition: the partition's index, the batch's header, and the length of its records in bytes.
    pub partitions: Vec<(i32, [u8; BATCH_HEADER_BYTES], usize)>,
}

/// A frame without the bytes of its records.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// The bytes of the frame around the records.
    pub bytes: Vec<u8>,
    /// The position in `bytes` at which each batch's records must be inserted, in the order of the batches.
    pub cuts: Vec<usize>,
}

impl ProduceFrame<'_> {
    /// Encodes the frame of this request, without the records. Its length prefix includes them.
    ///
    /// # Errors
    /// A version that is not supported, or a total length that exceeds a frame's 32-bit length.
    pub fn encode(&self, version: i16, correlation_id: i32, client_id: Option<&str>) -> Result<Gaps, WireError> {
        let versions = ProduceRequest::VERSIONS;
        check_version("ProduceRequest", version, *versions.start(), *versions.end())?;
        let header = RequestHeader {
            request_api_key: ApiKey::Produce.code(),
            request_api_version: version,
            correlation_id,
            client_id,
            ..RequestHeader::default()
        };
        let mut writer = Writer::new();
        writer.i32(0);
        header.encode(&mut writer, request_header_version(version, ProduceRequest::FLEXIBLE_FROM))?;
        let mut body = Body { writer, version, flexible: version >= ProduceRequest::FLEXIBLE_FROM, cuts: Vec::new() };
        let records_bytes = body.request(self);
        let (mut bytes, cuts) = (body.writer.into_bytes(), body.cuts);
        let length = bytes.len() - 4 + records_bytes;
        let prefix = i32::try_from(length).map_err(|_| WireError::TooLong {
            place: Default::default(),
            length,
            limit: i32::MAX as usize,
        })?;
        bytes[..4].copy_from_slice(&prefix.to_be_bytes());
        Ok(Gaps { bytes, cuts })
    }
}

struct Body {
    writer: Writer,
    version: i16,
    flexible: bool,
    cuts: Vec<usize>,
}

impl Body {
    /// Writes the request, and returns the total length of the records.
    fn request(&mut self, frame: &ProduceFrame<'_>) -> usize {
        self.text(frame.transactional_id);
        self.writer.i16(frame.acks);
        self.writer.i32(frame.timeout_ms);
        self.length(frame.topics.len());
        let mut records_bytes = 0;
        for topic in frame.topics {
            match self.version {
                13.. => self.writer.uuid(topic.id),
                _ => self.text(Some(topic.name)),
            }
            self.length(topic.partitions.len());
            for (index, header, length) in &topic.partitions {
                self.writer.i32(*index);
                self.length(BATCH_HEADER_BYTES + length);
                self.writer.bytes(header);
                self.cuts.push(self.writer.len());
                self.no_tags();
                records_bytes += length;
            }
            self.no_tags();
        }
        self.no_tags();
        records_bytes
    }

    fn text(&mut self, text: Option<&str>) {
        let length = text.map(str::len);
        match (self.flexible, length) {
            (true, length) => self.writer.unsigned_varint(length.map_or(0, |length| length as u32 + 1)),
            (false, length) => self.writer.i16(length.map_or(-1, |length| length as i16)),
        }
        self.writer.bytes(text.unwrap_or_default().as_bytes());
    }

    fn length(&mut self, length: usize) {
        match self.flexible {
            true => self.writer.unsigned_varint(length as u32 + 1),
            false => self.writer.i32(length as i32),
        }
    }

    fn no_tags(&mut self) {
        if self.flexible {
            self.writer.unsigned_varint(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::encode_request;
    use crate::messages::produce::{PartitionProduceData, TopicProduceData};

    #[test]
    fn filled_in_it_is_the_frame_of_the_message_in_every_version() {
        let records = [vec![1; 7], vec![2; 40_000], Vec::new()];
        let batches: Vec<Vec<u8>> =
            records.iter().enumerate().map(|(number, records)| [&[number as u8; 61][..], records].concat()).collect();
        let partition = |number: usize| (number as i32, [number as u8; 61], records[number].len());
        let topics = [
            TopicBatches { name: "a", id: Uuid([1; 16]), partitions: vec![partition(0), partition(1)] },
            TopicBatches { name: "bc", id: Uuid([2; 16]), partitions: vec![partition(2)] },
        ];
        for version in ProduceRequest::VERSIONS {
            for transactional_id in [None, Some("t")] {
                let frame = ProduceFrame { transactional_id, acks: -1, timeout_ms: 1500, topics: &topics };
                let gaps = frame.encode(version, 9, Some("c")).expect("encodes");
                let mut filled = gaps.bytes;
                for (cut, records) in gaps.cuts.into_iter().zip(&records).rev() {
                    filled.splice(cut..cut, records.iter().copied());
                }
                let partition = |number: usize| PartitionProduceData {
                    index: number as i32,
                    records: Some(&batches[number]),
                    ..Default::default()
                };
                let topic = |name, id, partition_data| TopicProduceData {
                    name: if version < 13 { name } else { "" },
                    topic_id: if version < 13 { Uuid::ZERO } else { Uuid([id; 16]) },
                    partition_data,
                    ..Default::default()
                };
                let topic_data =
                    vec![topic("a", 1, vec![partition(0), partition(1)]), topic("bc", 2, vec![partition(2)])];
                let request =
                    ProduceRequest { transactional_id, acks: -1, timeout_ms: 1500, topic_data, ..Default::default() };
                let whole = encode_request(&request, version, 9, Some("c")).expect("encodes");
                assert!(filled == whole, "version {version}");
            }
        }
    }
}
