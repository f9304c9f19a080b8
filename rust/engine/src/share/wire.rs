//! The requests of a share session, made of the machine's plans, and their answers, read for it.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::{share_acknowledge, share_fetch};
use monedula_protocol::types::Uuid;

use super::io::{AcknowledgePlan, Acquired, FetchedPartition, PlannedPartition, ShareAnswer, ShareFetchPlan};

impl ShareFetchPlan {
    /// The first version that can carry the request: 1 has no strict limit of records.
    pub fn first_version(&self) -> i16 {
        if self.is_strict { 2 } else { 1 }
    }

    /// The request. `max_bytes`: the room for its answer; `min_bytes`: `fetch.min.bytes`.
    pub fn request<'a>(
        &self,
        group_id: &'a str,
        member_id: &'a str,
        min_bytes: i32,
        max_bytes: i32,
    ) -> share_fetch::ShareFetchRequest<'a> {
        use share_fetch::{AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic};
        let topics = by_topic(&self.partitions, |planned| FetchPartition {
            partition_index: planned.partition,
            acknowledgement_batches: planned
                .batches
                .iter()
                .map(|batch| AcknowledgementBatch {
                    first_offset: batch.first,
                    last_offset: batch.last,
                    acknowledge_types: batch.types.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
        let mut forgotten: Vec<ForgottenTopic<'_>> = Vec::new();
        for &(topic_id, partition) in &self.forgotten {
            match forgotten.last_mut().filter(|topic| topic.topic_id == topic_id) {
                Some(topic) => topic.partitions.push(partition),
                None => {
                    forgotten.push(ForgottenTopic { topic_id, partitions: vec![partition], ..Default::default() });
                }
            }
        }
        share_fetch::ShareFetchRequest {
            group_id: Some(group_id),
            member_id: Some(member_id),
            share_session_epoch: self.session_epoch,
            max_wait_ms: i32::try_from(self.max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: min_bytes.min(max_bytes),
            max_bytes,
            max_records: self.max_records,
            batch_size: self.max_records,
            share_acquire_mode: i8::from(self.is_strict),
            topics: topics
                .into_iter()
                .map(|(topic_id, partitions)| FetchTopic { topic_id, partitions, ..Default::default() })
                .collect(),
            forgotten_topics_data: forgotten,
            ..Default::default()
        }
    }
}

impl AcknowledgePlan {
    /// The versions that can carry the request: 1 renews no locks.
    pub fn first_version(&self) -> i16 {
        if self.is_renewal { 2 } else { 1 }
    }

    /// The request.
    pub fn request<'a>(&self, group_id: &'a str, member_id: &'a str) -> share_acknowledge::ShareAcknowledgeRequest<'a> {
        use share_acknowledge::{AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch};
        let topics = by_topic(&self.partitions, |planned| AcknowledgePartition {
            partition_index: planned.partition,
            acknowledgement_batches: planned
                .batches
                .iter()
                .map(|batch| AcknowledgementBatch {
                    first_offset: batch.first,
                    last_offset: batch.last,
                    acknowledge_types: batch.types.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
        share_acknowledge::ShareAcknowledgeRequest {
            group_id: Some(group_id),
            member_id: Some(member_id),
            share_session_epoch: self.session_epoch,
            is_renew_ack: self.is_renewal,
            topics: topics
                .into_iter()
                .map(|(topic_id, partitions)| AcknowledgeTopic { topic_id, partitions, ..Default::default() })
                .collect(),
            ..Default::default()
        }
    }
}

impl ShareAnswer {
    /// The answer to a ShareFetch; its records stay where they are.
    pub fn of_fetch(response: &share_fetch::ShareFetchResponse<'_>) -> Self {
        let topics = response.responses.iter();
        let partitions = topics.flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, it)));
        let partitions = partitions.map(|(topic_id, it)| FetchedPartition {
            topic_id,
            partition: it.partition_index,
            code: ErrorCode::from_code(it.error_code),
            acknowledge_code: ErrorCode::from_code(it.acknowledge_error_code),
            leader: (it.current_leader.leader_id, it.current_leader.leader_epoch),
            acquired: acquired(&it.acquired_records),
        });
        Self {
            code: ErrorCode::from_code(response.error_code),
            lock_timeout: lock_timeout(response.acquisition_lock_timeout_ms),
            partitions: partitions.collect(),
        }
    }

    /// The answer to a ShareAcknowledge.
    pub fn of_acknowledge(response: &share_acknowledge::ShareAcknowledgeResponse<'_>) -> Self {
        let topics = response.responses.iter();
        let partitions = topics.flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, it)));
        let partitions = partitions.map(|(topic_id, it)| FetchedPartition {
            topic_id,
            partition: it.partition_index,
            code: ErrorCode::from_code(it.error_code),
            acknowledge_code: ErrorCode::None,
            leader: (it.current_leader.leader_id, it.current_leader.leader_epoch),
            acquired: Vec::new(),
        });
        Self {
            code: ErrorCode::from_code(response.error_code),
            lock_timeout: lock_timeout(response.acquisition_lock_timeout_ms),
            partitions: partitions.collect(),
        }
    }
}

/// The ranges of acquired offsets that make sense, ascending and without overlaps.
fn acquired(ranges: &[share_fetch::AcquiredRecords<'_>]) -> Vec<Acquired> {
    let mut sound: Vec<Acquired> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let is_behind = sound.last().is_none_or(|last| last.last < range.first_offset);
        if range.first_offset >= 0 && range.first_offset <= range.last_offset && is_behind {
            let (first, last, delivery_count) = (range.first_offset, range.last_offset, range.delivery_count);
            sound.push(Acquired { first, last, delivery_count });
        }
    }
    sound
}

fn lock_timeout(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Partitions by topic, in their order: the plan has those of a topic together.
fn by_topic<P>(planned: &[PlannedPartition], partition: impl Fn(&PlannedPartition) -> P) -> Vec<(Uuid, Vec<P>)> {
    let mut topics: Vec<(Uuid, Vec<P>)> = Vec::new();
    for each in planned {
        match topics.last_mut().filter(|(topic_id, _)| *topic_id == each.topic_id) {
            Some((_, partitions)) => partitions.push(partition(each)),
            None => topics.push((each.topic_id, vec![partition(each)])),
        }
    }
    topics
}
