//! The command that appends records, so that a test can fill a topic without a producer.

use std::ops::Range;

use monedula_protocol::base64;
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::records::{BatchEncoder, Header, NewRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::BrokerError;
use crate::core::Core;
use crate::log::validate::{Refusal, single_batch};

/// The limit on the bytes of records in one batch, so that the default `max.message.bytes` accepts it.
const BATCH_BYTES: usize = 512 * 1024;

/// A record to append.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The key.
    #[serde(default)]
    pub key: Option<Data>,
    /// The value; `None` for a tombstone.
    #[serde(default)]
    pub value: Option<Data>,
    /// The headers.
    #[serde(default)]
    pub headers: Vec<(String, Option<Data>)>,
    /// The timestamp in milliseconds since the Unix epoch; default: the broker's time.
    #[serde(default)]
    pub timestamp_ms: Option<i64>,
}

/// Bytes. Their JSON is a string, or `{"base64": "..."}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "JsonData", into = "JsonData")]
pub struct Data(pub Vec<u8>);

/// The JSON form of [`Data`].
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum JsonData {
    Text(String),
    Base64 { base64: Base64 },
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Base64(Vec<u8>);

impl TryFrom<String> for Base64 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        base64::decode(&text).map(Self).ok_or_else(|| format!("{text:?} is no base64"))
    }
}

impl From<Base64> for String {
    fn from(bytes: Base64) -> Self {
        base64::encode_url_safe(&bytes.0)
    }
}

impl From<JsonData> for Data {
    fn from(written: JsonData) -> Self {
        match written {
            JsonData::Text(text) => Self(text.into_bytes()),
            JsonData::Base64 { base64 } => Self(base64.0),
        }
    }
}

impl From<Data> for JsonData {
    fn from(data: Data) -> Self {
        match String::from_utf8(data.0) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64 { base64: Base64(error.into_bytes()) },
        }
    }
}

impl Core {
    /// Appends records to a partition at consecutive offsets, as a producer with acks=1 would.
    pub(super) fn append_on_command(
        &mut self,
        topic: &str,
        partition: i32,
        records: &[Record],
        compression: Option<&str>,
    ) -> Result<Value, BrokerError> {
        let compression = codec(compression)?;
        if self.topics.partition(topic, partition).is_none() {
            let problem = match self.topics.get(topic) {
                None => format!("there is no topic {topic}; create_topic makes it"),
                Some(found) => {
                    format!("there is no partition {topic}-{partition}: the topic has {}", found.partitions.len())
                }
            };
            return Err(BrokerError::Command(problem));
        }
        let mut compressor = Compressor::new();
        let mut offsets: Option<Range<i64>> = None;
        for records in batches(records) {
            let first = self.append_batch(topic, partition, records, compression, &mut compressor)?;
            let end = first + records.len() as i64;
            offsets = Some(offsets.map_or(first, |offsets| offsets.start)..end);
        }
        let offsets = offsets.unwrap_or_else(|| {
            let end = self.topics.partition(topic, partition).map_or(0, |partition| partition.log.end_offset());
            end..end
        });
        Ok(json!({ "first_offset": offsets.start, "next_offset": offsets.end }))
    }

    fn append_batch(
        &mut self,
        topic: &str,
        partition: i32,
        records: &[Record],
        compression: Compression,
        compressor: &mut Compressor,
    ) -> Result<i64, BrokerError> {
        let refused = |refusal: Refusal| {
            let why = refusal.message.or_else(|| refusal.records.into_iter().map(|(_, why)| why).next());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            BrokerError::Command(format!("{topic}-{partition}: {}{why}", refusal.error.name()))
        };
        let mut encoder = BatchEncoder::new().compression(compression, None);
        for record in records {
            let headers: Vec<Header<'_>> = record
                .headers
                .iter()
                .map(|(key, value)| Header {
                    key: key.as_bytes(),
                    value: value.as_ref().map(|value| value.0.as_slice()),
                })
                .collect();
            encoder.append(NewRecord {
                timestamp_ms: record.timestamp_ms.unwrap_or(self.now_ms),
                key: record.key.as_ref().map(|key| key.0.as_slice()),
                value: record.value.as_ref().map(|value| value.0.as_slice()),
                headers: &headers,
            });
        }
        let mut bytes = Vec::new();
        let encoded = encoder.encode(compressor, &mut bytes);
        encoded.map_err(|error| BrokerError::Command(format!("{topic}-{partition}: {error}")))?;
        let batch = single_batch(&bytes.into(), i16::MAX).map_err(refused)?;
        self.append_from_client((topic, partition), batch, 1, false)
            .map(|appended| appended.base_offset)
            .map_err(refused)
    }
}

/// Splits records into slices that each fit into a batch.
fn batches(mut records: &[Record]) -> impl Iterator<Item = &[Record]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fit = records.iter().take_while(|record| {
            let first = bytes == 0;
            bytes += size(record);
            first || bytes <= BATCH_BYTES
        });
        let (batch, rest) = records.split_at(fit.count());
        records = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

fn size(record: &Record) -> usize {
    let data = |data: &Option<Data>| data.as_ref().map_or(0, |data| data.0.len());
    let headers: usize = record.headers.iter().map(|(key, value)| key.len() + data(value)).sum();
    // The fields of a record besides these take a few bytes.
    16 + data(&record.key) + data(&record.value) + headers
}

fn codec(name: Option<&str>) -> Result<Compression, BrokerError> {
    let Some(name) = name else { return Ok(Compression::None) };
    Compression::ALL.into_iter().find(|codec| codec.name() == name).ok_or_else(|| {
        let names: Vec<_> = Compression::ALL.into_iter().map(Compression::name).collect();
        BrokerError::Command(format!("there is no compression {name:?}; there are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_base64() {
        let record: Record = serde_json::from_str(r#"{"key": "k", "value": {"base64": "AP8="}}"#).unwrap();
        assert_eq!((record.key.unwrap().0, record.value.unwrap().0), (b"k".to_vec(), vec![0, 255]));
        let error = serde_json::from_str::<Record>(r#"{"value": {"base64": "*"}}"#).unwrap_err();
        assert!(error.to_string().contains("did not match"), "{error}");
    }

    #[test]
    fn a_batch_ends_before_it_is_too_large() {
        let record = |bytes| Record { value: Some(Data(vec![0; bytes])), ..Record::default() };
        let records = [record(BATCH_BYTES * 2), record(10), record(BATCH_BYTES - 100), record(10), record(90)];
        let sizes: Vec<usize> = batches(&records).map(<[Record]>::len).collect();
        assert_eq!(sizes, [1, 3, 1]);
        assert_eq!(batches(&[]).count(), 0);
    }
}
