//! Appends to partitions: batches of clients, and batches that coordinators and control commands make.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::records::{BatchEncoder, ControlRecordType, NewRecord, TimestampType};

use super::Core;
use crate::cluster::{Coordinated, StoredRecord, Topic};
use crate::log::validate::{Refusal, Rules};
use crate::log::{Batch, Rolling};
use crate::settings::KafkaSettings;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// -1 if the topic keeps the producers' timestamps; for a duplicate the timestamp of the batch that was appended
    /// first, as in Kafka.
    pub(crate) log_append_time_ms: i64,
}

/// The marker that ends a transaction.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// 2 if every transaction has an epoch of its own (KIP-890).
    pub(crate) transaction_version: i16,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) commit: bool,
    pub(crate) coordinator_epoch: i32,
}

/// The rules for batches that the configs of a topic set.
fn rules(topic: &Topic, settings: &KafkaSettings, max_decompressed_batch_bytes: usize) -> Rules {
    let config = &topic.config;
    Rules {
        max_message_bytes: config.max_message_bytes(settings).max(0) as usize,
        max_decompressed_batch_bytes,
        segment_bytes: config.segment_bytes(settings).max(0) as u64,
        compacted: config.cleanup_policy(settings).compact,
        timestamp_type: match config.message_timestamp_type(settings).as_str() {
            "LogAppendTime" => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        },
        timestamp_before_max_ms: config.message_timestamp_before_max_ms(settings),
        timestamp_after_max_ms: config.message_timestamp_after_max_ms(settings),
        compression: target_compression(&config.compression_type(settings)),
    }
}

/// The codec of `compression.type`; `None` for `producer`.
fn target_compression(name: &str) -> Option<Compression> {
    match name {
        "uncompressed" => Some(Compression::None),
        _ => Compression::ALL.into_iter().skip(1).find(|codec| codec.name() == name),
    }
}

impl Core {
    /// Appends a client's batch. The caller has checked that the node which received the request leads the partition,
    /// and says whether the batch `begins` a transaction there of a producer whose transactions have epochs of their
    /// own.
    ///
    /// # Errors
    /// The first problem of the batch, of its producer's state, or of the partition (NOT_ENOUGH_REPLICAS with
    /// acks=all).
    pub(crate) fn append_from_client(
        &mut self,
        (topic, index): (&str, i32),
        batch: Batch,
        acks: i16,
        begins: bool,
    ) -> Result<Appended, Refusal> {
        let settings = &self.settings.kafka;
        let found = self.topics.get_for_append(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let min_insync_replicas = found.config.min_insync_replicas(settings);
        if acks == -1 && !found.partition_mut(index)?.has_min_isr(min_insync_replicas) {
            return Err(ErrorCode::NotEnoughReplicas.into());
        }
        let rules = rules(found, settings, self.settings.max_decompressed_batch_bytes);
        let batch = self.validator.check(batch, &rules, self.now_ms, (topic, index))?;
        let log = &found.partition_mut(index)?.log;
        if batch.header.producer_id >= 0 {
            if let Some(seen) = log.producers().duplicate_of(&batch.header) {
                return Ok(Appended { base_offset: seen.first_offset, log_append_time_ms: seen.timestamp_ms });
            }
            log.producers().check(&batch.header, begins)?;
        }
        let base_offset = self.append_checked(topic, index, batch)?;
        let log_append_time_ms = if rules.timestamp_type == TimestampType::LogAppendTime { self.now_ms } else { -1 };
        Ok(Appended { base_offset, log_append_time_ms })
    }

    /// Appends a batch that may be appended, and advances the high watermark. Returns the base offset.
    fn append_checked(&mut self, topic: &str, index: i32, batch: Batch) -> Result<i64, ErrorCode> {
        self.attach(topic, index)?;
        let found = self.topics.get_for_append(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (config, settings) = (&found.config, &self.settings.kafka);
        let segment_bytes = config.segment_bytes(settings).max(1) as u64;
        let rolling = Rolling { segment_bytes, segment_ms: config.roll_ms(settings), now_ms: self.now_ms };
        let min_insync_replicas = config.min_insync_replicas(settings);
        let partition = found.partition_mut(index)?;
        let before = partition.log.closed_segments();
        let ends = batch.header.is_control();
        let base_offset = partition.log.append(batch, partition.leader_epoch, rolling)?;
        partition.advance_high_watermark(min_insync_replicas);
        // Compaction may have more to do: a segment was closed, or a marker ended a transaction.
        if ends || partition.log.closed_segments() != before {
            self.housekeeping.look_for_dirt();
        }
        self.partition_changed(topic, index);
        Ok(base_offset)
    }

    /// Creates the log directory of a partition, if there is a data directory, and marks the topic's file to be saved
    /// again: the file says which partitions have segments, so that a missing directory is an error at the next start.
    /// The topic's file is written before the directory is created.
    fn attach(&mut self, topic: &str, index: i32) -> Result<(), ErrorCode> {
        let found = self.topics.get_for_append(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (id, name) = (found.id, Arc::clone(&found.name));
        let is_in_files = found.partition_mut(index)?.log.is_in_files();
        let Some(data_dir) = self.data_dir.as_ref().filter(|_| !is_in_files) else { return Ok(()) };
        if !data_dir.has_saved(id) {
            self.topics.touch(&name);
            self.save().map_err(|error| {
                log::error!("{error}");
                ErrorCode::KafkaStorageError
            })?;
        }
        let (Some(data_dir), Some(found)) = (&self.data_dir, self.topics.get_for_append(topic)) else { return Ok(()) };
        found.partition_mut(index)?.log.attach(|| data_dir.log_directory(id, index), data_dir.open_files())?;
        self.topics.touch(&name);
        Ok(())
    }

    /// Handles a new leader epoch of a partition: the log begins it, the high watermark advances, waiting fetches are
    /// woken.
    pub(crate) fn new_epoch(&mut self, topic: &str, index: i32) {
        // More records may be committed, so that compaction may have more to do.
        self.housekeeping.look_for_dirt();
        let Some(found) = self.topics.get_mut(topic) else { return };
        let min_insync_replicas = found.config.min_insync_replicas(&self.settings.kafka);
        if let Ok(partition) = found.partition_mut(index) {
            partition.log.begin_epoch(partition.leader_epoch);
            partition.advance_high_watermark(min_insync_replicas);
        }
        self.partition_changed(topic, index);
    }

    /// Appends a batch of a coordinator or a control command unchanged, at the next offsets. Returns its base offset.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, CORRUPT_MESSAGE, INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR.
    pub(crate) fn append(&mut self, topic: &str, index: i32, batch: &Bytes) -> Result<i64, ErrorCode> {
        let found = self.topics.get_for_append(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let batch = Batch::first_of(batch).ok().flatten().ok_or(ErrorCode::CorruptMessage)?;
        let header = &batch.header;
        let known = found.partition_mut(index)?.log.producers().get(header.producer_id);
        if known.is_some_and(|known| header.producer_epoch < known.epoch) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        self.append_checked(topic, index, batch)
    }

    /// Writes the marker that ends a producer's transaction in a partition. Returns its offset.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
    pub(crate) fn append_marker(&mut self, topic: &str, index: i32, marker: Marker) -> Result<i64, ErrorCode> {
        let found = self.topics.get_for_append(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let Marker { transaction_version, producer_id, producer_epoch, commit, coordinator_epoch } = marker;
        let producers = found.partition_mut(index)?.log.producers();
        producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)?;
        let kind = if commit { ControlRecordType::Commit } else { ControlRecordType::Abort };
        let encoder = BatchEncoder::new().producer(producer_id, producer_epoch, -1);
        let encoder = encoder.control_marker(kind, coordinator_epoch, self.now_ms);
        let mut bytes = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut bytes).map_err(|_| ErrorCode::UnknownServerError)?;
        self.append(topic, index, &bytes.into())
    }

    /// Stores records as one batch, so that after a crash either all of them exist or none.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE if the partition does not exist or cannot be written.
    pub(crate) fn store(
        &mut self,
        kind: Coordinated,
        partition: i32,
        records: &[StoredRecord],
    ) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        let timestamp_ms = self.now_ms;
        let mut encoder = BatchEncoder::new();
        for record in records {
            let (key, value) = (Some(record.key.as_ref()), record.value.as_deref());
            encoder.append(NewRecord { timestamp_ms, key, value, headers: &[] });
        }
        let mut batch = Vec::new();
        encoder.encode(&mut Compressor::new(), &mut batch).map_err(|_| ErrorCode::UnknownServerError)?;
        self.append(kind.topic(), partition, &batch.into()).map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
        self.compact_if_grown(kind.topic(), partition);
        Ok(())
    }
}
