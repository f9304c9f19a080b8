//! Fetch answers: what is accepted of them, and what each error leads to.

use std::time::Duration;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::fetch::{FetchResponse, PartitionData};
use monedula_protocol::records::{BatchHeader, Batches};
use monedula_protocol::types::Uuid;

use super::AssignmentId;
use super::fault::Fault;
use super::io::{Aborted, Fetched, Output};
use super::machine::FetchMachine;
use super::partition::{PartitionState, Phase};
use crate::{Now, TopicPartition};

/// The end of the fetched batches that were stepped over.
#[derive(Clone, Copy)]
struct Stepped {
    whole_bytes: usize,
    record_count: u64,
    next_offset: i64,
    leader_epoch: i32,
}

/// The reason why the batches were stepped over no further.
struct Broken {
    reason: String,
    /// Set if the partition must stop here: a fetch behind the damage could pass over it unseen.
    is_final: bool,
}

impl FetchMachine {
    /// The least time between two fetches from a node that has nothing to say.
    const SHORTEST_WAIT: Duration = Duration::from_millis(5);

    /// Accepts what the answer brought. Data for a reading that is over, or for another offset than asked, is dropped
    /// here.
    pub(super) fn fetch_answered(&mut self, node_id: i32, answer: &FetchResponse<'_>, now: Now) {
        let error = ErrorCode::from_code(answer.error_code);
        if error != ErrorCode::None {
            return self.session_failed(node_id, error, now);
        }
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        let Some(sent_at) = node.sent_at.take() else { return };
        node.session.acknowledged(answer.session_id);
        self.forget_retired();
        self.answers += 1;
        let mut has_content = false;
        for (topic_index, topic) in answer.responses.iter().enumerate() {
            for (index, data) in topic.partitions.iter().enumerate() {
                let Some(id) = self.find(topic.topic, topic.topic_id, data.partition_index) else { continue };
                if self.is_expected(node_id, id) {
                    has_content |= self.partition_answered(node_id, id, (topic_index, index), data, now);
                }
            }
        }
        self.pace(node_id, has_content, now.saturating_sub(sent_at), now);
    }

    /// A broker that answers at once with nothing, again and again, must not be asked in a spin. Neither data that is
    /// dropped nor the mere head of a batch counts as content.
    fn pace(&mut self, node_id: i32, has_content: bool, took: Duration, now: Now) {
        // With a `fetch.max.wait.ms` of next to nothing every empty answer is quick, and the waits have to stay short.
        let hasty = self.config.max_wait / 4 < Self::SHORTEST_WAIT;
        let quick = took < Self::SHORTEST_WAIT.max(self.config.max_wait / 4);
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        if has_content || !quick {
            node.attempts = 0;
            return;
        }
        // One quick empty answer is ordinary: a new session, or a high watermark that moved.
        if node.attempts > 0 {
            let delay = match hasty {
                true => Self::SHORTEST_WAIT - took,
                false => self.config.backoff.delay(node.attempts - 1, &mut self.jitter),
            };
            node.retry_at = now + delay;
        }
        node.attempts = node.attempts.saturating_add(1);
    }

    fn session_failed(&mut self, node_id: i32, error: ErrorCode, now: Now) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        let session_error = matches!(
            error,
            ErrorCode::FetchSessionIdNotFound
                | ErrorCode::InvalidFetchSessionEpoch
                | ErrorCode::FetchSessionTopicIdError
        );
        if !session_error {
            return self.fetch_failed(node_id, now);
        }
        // An evicted session is ordinary: the next request opens another, at once. A second failure in a row waits.
        node.session.failed(Some(error));
        node.sent_at = None;
        if node.attempts > 0 {
            node.retry_at = now + self.config.backoff.delay(node.attempts - 1, &mut self.jitter);
        }
        node.attempts = node.attempts.saturating_add(1);
        self.forget_retired();
    }

    fn find(&self, name: &str, id: Uuid, partition: i32) -> Option<AssignmentId> {
        if id != Uuid::ZERO {
            return self.by_id.get(&(id, partition)).copied();
        }
        self.by_partition.get(&TopicPartition::new(name, partition)).copied()
    }

    /// Tells whether the partition still waits for just this answer of the node.
    fn is_expected(&self, node_id: i32, id: AssignmentId) -> bool {
        let asked = self.nodes.get(&node_id).and_then(|node| node.session.asked(id));
        let Some((asked, state)) = asked.zip(self.partitions.get(&id)) else { return false };
        state.reading_id == asked.reading_id && state.offset == asked.offset && state.phase == Phase::Fetching
    }

    /// Tells whether the answer brought records of the partition, or an error.
    fn partition_answered(
        &mut self,
        node_id: i32,
        id: AssignmentId,
        place: (usize, usize),
        data: &PartitionData<'_>,
        now: Now,
    ) -> bool {
        let error = ErrorCode::from_code(data.error_code);
        if error != ErrorCode::None {
            self.partition_error(node_id, id, error, data, now);
            return true;
        }
        if data.diverging_epoch.epoch >= 0 && data.diverging_epoch.end_offset >= 0 {
            self.truncate_to(id, data.diverging_epoch.end_offset);
            self.touch(id, now);
            return false;
        }
        let has_records = self.accept(id, place, data);
        self.prefer(node_id, id, data.preferred_read_replica, now);
        self.touch(id, now);
        has_records
    }

    /// Moves the position behind the whole batches, and puts these out; whether there are any.
    fn accept(&mut self, id: AssignmentId, place: (usize, usize), data: &PartitionData<'_>) -> bool {
        let (max_partition_bytes, answer) = (self.config.max_partition_bytes, self.answers);
        let Some(state) = self.partitions.get_mut(&id) else { return false };
        let records = data.records.unwrap_or_default();
        if !records.is_empty() {
            state.served = answer;
        }
        let (stepped, broken) = step(records, state);
        let (partition, reading_id) = (state.partition.clone(), state.reading_id);
        state.attempts = 0;
        state.high_watermark = Some(data.high_watermark);
        let has_records = stepped.whole_bytes > 0;
        if has_records {
            (state.offset, state.offset_epoch) = (stepped.next_offset, stepped.leader_epoch);
            state.max_bytes = max_partition_bytes;
        } else if !records.is_empty() && broken.is_none() {
            // Only the head of a batch larger than the cap fitted (KIP-74): ask for more next time.
            state.max_bytes = state.max_bytes.saturating_mul(2);
        }
        // Damage beyond the end of a bounded read concerns nobody.
        let wanted = state.end.is_none_or(|end| stepped.next_offset < end);
        let broken = broken.filter(|broken| wanted && broken.is_final || !has_records);
        if has_records || broken.is_none() {
            let aborted = data.aborted_transactions.iter().flatten();
            self.emit(Output::Fetched(Fetched {
                partition: partition.clone(),
                reading_id,
                place,
                record_bytes: stepped.whole_bytes,
                record_count: stepped.record_count,
                next_offset: stepped.next_offset,
                aborted: aborted
                    .map(|entry| Aborted { producer_id: entry.producer_id, first_offset: entry.first_offset })
                    .collect(),
                high_watermark: data.high_watermark,
                last_stable_offset: data.last_stable_offset,
                log_start_offset: data.log_start_offset,
            }));
        }
        if let Some(Broken { reason, .. }) = broken {
            self.stop(id, Fault::Corrupt { partition, offset: stepped.next_offset, reason });
        }
        has_records
    }

    /// Fetches from the replica that the leader names from now on (KIP-392).
    fn prefer(&mut self, node_id: i32, id: AssignmentId, replica: i32, now: Now) {
        if replica < 0 || replica == node_id {
            return;
        }
        if !self.brokers.contains(&replica) {
            return self.want_metadata();
        }
        let until = now + self.config.preferred_replica_ttl;
        if let Some(state) = self.partitions.get_mut(&id) {
            state.preferred = Some((replica, until));
        }
    }

    fn partition_error(
        &mut self,
        node_id: i32,
        id: AssignmentId,
        error: ErrorCode,
        data: &PartitionData<'_>,
        now: Now,
    ) {
        let Some(state) = self.partitions.get_mut(&id) else { return };
        let partition = state.partition.clone();
        let from_follower = state.leader != Some(node_id);
        state.preferred = None;
        match error {
            // A follower may lag behind the leader's log: the fetch goes to the leader, whose answer counts.
            ErrorCode::OffsetOutOfRange if from_follower => {}
            ErrorCode::OffsetOutOfRange => state.phase = Phase::OutOfRange,
            ErrorCode::TopicAuthorizationFailed => self.stop(id, Fault::TopicDenied { partition }),
            ErrorCode::CorruptMessage => {
                let (offset, reason) = (state.offset, "the broker found its own log corrupt (CORRUPT_MESSAGE)".into());
                self.stop(id, Fault::Corrupt { partition, offset, reason });
            }
            error if error.is_retriable() || retry_despite(error) => {
                let leader = &data.current_leader;
                if leader.leader_id >= 0 && leader.leader_epoch > state.leader_epoch {
                    let (leader, leader_epoch) = (leader.leader_id, leader.leader_epoch);
                    self.emit(Output::LeaderHint { partition, leader, leader_epoch });
                }
                self.back_off(id, now);
                self.want_metadata();
            }
            code => self.stop(id, Fault::Refused { partition, code }),
        }
        self.touch(id, now);
    }
}

/// Errors that Kafka calls final but that a metadata refresh, or time, mends.
fn retry_despite(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::UnknownServerError | ErrorCode::InconsistentTopicId | ErrorCode::UnknownTopicId)
}

/// Steps over the batches without touching their records.
fn step(records: &[u8], state: &PartitionState) -> (Stepped, Option<Broken>) {
    let mut stepped =
        Stepped { whole_bytes: 0, record_count: 0, next_offset: state.offset, leader_epoch: state.offset_epoch };
    let mut last: Option<(BatchHeader, Stepped)> = None;
    let mut batches = Batches::of_any_format(records, 0);
    while let Some(batch) = batches.next() {
        let header = match batch {
            Ok(batch) => batch.header,
            Err(error) => return (stepped, Some(Broken { reason: error.to_string(), is_final: false })),
        };
        if let Some((last, before)) = last.filter(|(last, _)| header.base_offset <= last.last_offset()) {
            return run_backwards(stepped, before, &last, &header);
        }
        let last_offset = header.last_offset();
        // The first batch may begin before the position, but none may end before it: that would be no progress.
        if last_offset < stepped.next_offset {
            let reason = format!("a batch that ends at {last_offset} came again");
            return (stepped, Some(Broken { reason, is_final: false }));
        }
        last = Some((header, stepped));
        stepped.next_offset = last_offset + 1;
        stepped.leader_epoch = header.partition_leader_epoch;
        stepped.record_count += u64::try_from(header.record_count).unwrap_or(0);
        stepped.whole_bytes = batches.position();
    }
    (stepped, None)
}

/// No CRC covers a base offset, so all that shows a damaged one is that no log has such a neighbour: one of the two is
/// wrong. It is the one in front where that leaves a gap in which the other has its place.
fn run_backwards(
    stepped: Stepped,
    before: Stepped,
    last: &BatchHeader,
    header: &BatchHeader,
) -> (Stepped, Option<Broken>) {
    let reason = format!(
        "offsets run backwards: a batch of {} to {} follows one of {} to {}",
        header.base_offset,
        header.last_offset(),
        last.base_offset,
        last.last_offset()
    );
    let fits = last.base_offset > before.next_offset && header.base_offset >= before.next_offset;
    (if fits { before } else { stepped }, Some(Broken { reason, is_final: true }))
}
