//! Records that a share group will not deliver again, in its dead letter topic (KIP-1191).

use monedula_protocol::compression::{Compressor, Decompressor};
use monedula_protocol::records::{BatchEncoder, Header, NewRecord, Records};

use super::Core;
use crate::cluster::{NewTopic, TopicConfig};
use crate::log::Batch;
use crate::share::{DeadLetter, DeadLetterCause, ShareKey, ShareSettings};

/// The config of a topic that has to allow dead letters.
const ENABLED: &str = "errors.deadletterqueue.group.enable";

impl Core {
    /// Appends dead letters to the group's topic, if it has one. As in Kafka, a record is archived even if that fails.
    pub(super) fn write_dead_letters(&mut self, key: &ShareKey, letters: &[DeadLetter], settings: &ShareSettings) {
        let target = &settings.dead_letter_topic;
        if letters.is_empty() || target.is_empty() {
            return;
        }
        let prefix = &self.settings.kafka.errors_deadletterqueue_topic_name_prefix;
        if !target.starts_with(prefix.as_str()) {
            log::error!(
                "share group {}: the name of a dead letter topic begins with {prefix:?}, unlike {target}",
                key.group
            );
            return;
        }
        self.make_dead_letter_topic(target);
        let Some(topic) = self.topics.get(target).filter(|topic| topic.config.get(ENABLED) == Some("true")) else {
            log::error!("share group {}: topic {target} takes no dead letters", key.group);
            return;
        };
        let index = key.partition % topic.partitions.len().max(1) as i32;
        let Some(batch) = self.dead_letter_batch(key, letters, settings.dead_letters_have_content) else { return };
        let target = target.clone();
        if let Err(error) = self.append(&target, index, &batch.into()) {
            log::error!("share group {}: dead letters cannot be written to {target}-{index}: {error}", key.group);
        }
    }

    fn make_dead_letter_topic(&mut self, name: &str) {
        let settings = &self.settings.kafka;
        if !settings.errors_deadletterqueue_auto_create_topics_enable || self.topics.get(name).is_some() {
            return;
        }
        let replicas = self.nodes.place_replicas(0, settings.num_partitions, settings.default_replication_factor);
        let config = TopicConfig::new([(ENABLED, "true")]).unwrap_or_default();
        self.create_topic(NewTopic { name: name.into(), config, replicas });
    }

    /// The batch with the dead letters: one record for each of them that the log has.
    fn dead_letter_batch(&self, key: &ShareKey, letters: &[DeadLetter], with_content: bool) -> Option<Vec<u8>> {
        let topic = self.topics.name_of(key.topic)?;
        let log = &self.topics.partition(&topic, key.partition)?.log;
        let (partition, mut encoder) = (key.partition.to_string(), BatchEncoder::new());
        for letter in letters {
            let message = match letter.cause {
                DeadLetterCause::Rejected => "Offset rejected by client.",
                DeadLetterCause::DeliveredTooOften => "Offset delivery count exceeded the threshold.",
            };
            let count = letter.delivery_count.to_string();
            let headers: Vec<i64> =
                log.headers_between(letter.first, letter.last + 1).map(|header| header.base_offset).collect();
            for batch in headers.into_iter().filter_map(|base_offset| log.batch_at(base_offset).ok().flatten()) {
                let payload = payload(&batch)?;
                for record in Records::new(&batch.header, &payload).flatten() {
                    if !(letter.first..=letter.last).contains(&record.offset) {
                        continue;
                    }
                    let offset = record.offset.to_string();
                    let texts = [
                        ("__dlq.errors.topic", &*topic),
                        ("__dlq.errors.partition", &partition),
                        ("__dlq.errors.offset", &offset),
                        ("__dlq.errors.group", &key.group),
                        ("__dlq.errors.delivery.count", &count),
                        ("__dlq.errors.message", message),
                    ];
                    let own = record.headers.clone().filter(|_| with_content);
                    let texts = texts.into_iter().map(|(name, text)| header(name, text));
                    let headers: Vec<Header<'_>> = own.chain(texts).collect();
                    let (key, value) = if with_content { (record.key, record.value) } else { (None, None) };
                    encoder.append(NewRecord { timestamp_ms: self.now_ms, key, value, headers: &headers });
                }
            }
        }
        let mut bytes = Vec::new();
        let any = encoder.record_count() > 0;
        (any && encoder.encode(&mut Compressor::new(), &mut bytes).is_ok()).then_some(bytes)
    }
}

fn header<'a>(name: &'a str, text: &'a str) -> Header<'a> {
    Header { key: name.as_bytes(), value: Some(text.as_bytes()) }
}

/// The decompressed records of a batch, unless it is a marker.
fn payload(batch: &Batch) -> Option<Vec<u8>> {
    match batch.header.is_control() {
        true => Some(Vec::new()),
        false => Decompressor::new().decompress_to_vec(batch.header.compression(), &batch.payload, usize::MAX).ok(),
    }
}
