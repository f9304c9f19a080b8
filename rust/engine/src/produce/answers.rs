//! Answers to Produce requests, and what they lead to.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;

use super::error_codes::{Reaction, reaction};
use super::io::{Acknowledged, Acks, BatchId, Output, PartitionAnswer, RequestFailure, RequestId, SendFault};
use super::machine::{PartitionIndex, ProduceMachine, Request};
use super::partition_queue::Phase;
use crate::TopicPartition;

/// The reason why an attempt to send a batch failed, if it is retried.
struct FailedAttempt {
    /// The batch may be in the log.
    outcome_unknown: bool,
    /// The broker's error.
    code: ErrorCode,
    /// The broker's error message.
    message: Option<String>,
}

/// The batch counts as acknowledged, but no offset is known: with acks 0, or because the broker no longer knows it.
const NO_OFFSET: Acknowledged = Acknowledged { base_offset: None, log_append_time_ms: None };

impl ProduceMachine {
    pub(super) fn answered(&mut self, request: RequestId, outcome: Result<Vec<PartitionAnswer>, RequestFailure>) {
        let Some(request) = self.requests.remove(&request) else { return };
        if let Some(node) = self.nodes.get_mut(&request.broker) {
            node.in_flight = node.in_flight.saturating_sub(1);
        }
        self.ready.insert(request.broker);
        match outcome {
            Ok(answers) => self.partitions_answered(&request, answers),
            Err(failure) => self.request_failed(&request, &failure),
        }
        request.batches.iter().for_each(|&(partition, _)| self.update_partition(partition));
    }

    fn partitions_answered(&mut self, request: &Request, answers: Vec<PartitionAnswer>) {
        if let Some(node) = self.nodes.get_mut(&request.broker) {
            node.attempts = 0;
        }
        let mut answers: BTreeMap<TopicPartition, PartitionAnswer> =
            answers.into_iter().map(|answer| (answer.partition.clone(), answer)).collect();
        for &(partition, batch) in &request.batches {
            let Some(index) = self.batch_answered(partition, batch) else { continue };
            if self.config.acks == Acks::None {
                self.acknowledge(partition, index, NO_OFFSET);
                continue;
            }
            match answers.remove(&self.queues[partition].topic_partition) {
                Some(answer) => self.partition_answered(partition, index, answer),
                None => self.retry(partition, index, FailedAttempt::lost("the answer said nothing of the partition")),
            }
        }
    }

    fn request_failed(&mut self, request: &Request, failure: &RequestFailure) {
        let sent = match failure {
            RequestFailure::Fatal(reason) => {
                for &(partition, batch) in &request.batches {
                    let Some(index) = self.batch_answered(partition, batch) else { continue };
                    self.fail_batch(partition, index, SendFault::Fatal { reason: reason.clone() });
                }
                return;
            }
            RequestFailure::Lost(_) => true,
            RequestFailure::NotSent(_) => false,
        };
        self.refresh_wanted = true;
        self.back_off_broker(request.broker);
        for &(partition, batch) in &request.batches {
            let Some(index) = self.batch_answered(partition, batch) else { continue };
            let (RequestFailure::Lost(reason) | RequestFailure::NotSent(reason) | RequestFailure::Fatal(reason)) =
                failure;
            if sent {
                self.retry(partition, index, FailedAttempt::lost(reason));
            } else {
                self.never_sent(partition, index, reason);
            }
        }
    }

    /// Notes that the request of a batch was answered. Returns the batch's index in its queue.
    fn batch_answered(&mut self, partition: PartitionIndex, batch: BatchId) -> Option<usize> {
        let index = self.queues[partition].find(batch)?;
        self.queues[partition].answered(index);
        Some(index)
    }

    fn partition_answered(&mut self, partition: PartitionIndex, index: usize, answer: PartitionAnswer) {
        if let Some((leader, leader_epoch)) = answer.leader {
            let partition = answer.partition.clone();
            self.emit(Output::LeaderHint { partition, leader, leader_epoch });
        }
        let code = answer.code;
        if code == ErrorCode::None {
            let log_append_time_ms = Some(answer.log_append_time_ms).filter(|&time| time >= 0);
            let base_offset = Some(answer.base_offset).filter(|&offset| offset >= 0);
            return self.acknowledge(partition, index, Acknowledged { base_offset, log_append_time_ms });
        }
        let failed = |outcome_unknown| FailedAttempt { outcome_unknown, code, message: answer.message.clone() };
        match reaction(code) {
            Reaction::Done => {
                let base_offset = Some(answer.base_offset).filter(|&offset| offset >= 0);
                self.acknowledge(partition, index, Acknowledged { base_offset, log_append_time_ms: None });
            }
            Reaction::Retry => self.retry(partition, index, failed(true)),
            Reaction::RetryRefused => self.retry(partition, index, failed(false)),
            Reaction::Refresh => {
                self.refresh_wanted = true;
                self.retry(partition, index, failed(true));
            }
            Reaction::Split => self.split(partition, index, answer),
            Reaction::Renumber => self.out_of_order(partition, index, failed(false)),
            Reaction::Fail => self.refuse(partition, index, answer),
            Reaction::FailOutcomeUnknown => {
                self.queues[partition].batches[index].outcome_unknown = true;
                self.refuse(partition, index, answer);
            }
            Reaction::Fence => self.fail_producer(SendFault::Fenced { reason: code.name().to_owned() }),
            Reaction::FailAll => {
                let fault = self.refused_fault(partition, index, code, answer.message, Vec::new());
                self.fail_batch(partition, index, fault.clone());
                self.fail_producer(SendFault::Fatal { reason: fault.to_string() });
            }
        }
    }

    fn fail_producer(&mut self, fault: SendFault) {
        if self.config.transactional && !std::mem::replace(&mut self.transaction_failed, true) {
            self.emit(Output::TransactionFailed(fault.clone()));
        }
        if !self.has_failed() {
            self.fail_all(fault);
        }
    }

    fn acknowledge(&mut self, partition: PartitionIndex, index: usize, acknowledged: Acknowledged) {
        let queue = &mut self.queues[partition];
        if let Some(end) = queue.batches[index].sequence_end() {
            queue.numbers.acknowledge(end);
        }
        queue.known_to_leader = true;
        queue.retry_at = queue.retry_at.min(self.now);
        self.report(partition, index, Ok(acknowledged));
        self.remove(partition, index);
        // The broker appends no batch without those before it. Those that it refused as out of order are therefore in
        // the log: it only no longer knows their sequence numbers.
        for earlier in (0..index).rev() {
            if self.queues[partition].batches[earlier].out_of_order {
                self.report(partition, earlier, Ok(NO_OFFSET));
                self.remove(partition, earlier);
            }
        }
    }

    /// The request was certainly not sent, so it does not count as an attempt.
    fn never_sent(&mut self, partition: PartitionIndex, index: usize, reason: &str) {
        let queue = &mut self.queues[partition];
        let batch = &mut queue.batches[index];
        batch.attempts = batch.attempts.saturating_sub(1);
        batch.last_error = Some(reason.to_owned());
        queue.draining = queue.in_flight > 0;
        queue.retry_out_of_order();
        self.remove_if_reported(partition, index);
    }

    fn retry(&mut self, partition: PartitionIndex, index: usize, failed: FailedAttempt) {
        let queue = &mut self.queues[partition];
        queue.draining = queue.in_flight > 0;
        queue.retry_out_of_order();
        let batch = &mut queue.batches[index];
        batch.outcome_unknown |= failed.outcome_unknown;
        batch.last_error = Some(failed.to_string());
        if batch.attempts > self.config.retries {
            let fault = self.refused_fault(partition, index, failed.code, failed.message, Vec::new());
            return self.fail_batch(partition, index, fault);
        }
        self.back_off(partition, index);
        self.remove_if_reported(partition, index);
    }

    fn out_of_order(&mut self, partition: PartitionIndex, index: usize, failed: FailedAttempt) {
        let config = &self.config;
        let queue = &mut self.queues[partition];
        if !config.idempotent {
            let fault = self.refused_fault(partition, index, failed.code, failed.message, Vec::new());
            return self.fail_batch(partition, index, fault);
        }
        let end = queue.batches[index].sequence_end();
        if end.is_some_and(|end| end <= queue.numbers.acknowledged) {
            return self.acknowledge(partition, index, NO_OFFSET);
        }
        queue.draining = queue.in_flight > 0;
        let first = queue.is_first_missing(index);
        let has_gap = queue.numbers.has_gap();
        // A broker that misses a sequence number has a record of the producer.
        queue.known_to_leader |= failed.code == ErrorCode::OutOfOrderSequenceNumber;
        let batch = &mut queue.batches[index];
        batch.last_error = Some(failed.to_string());
        (batch.out_of_order, batch.out_of_order_code) = (first, Some(failed.code));
        if first && !has_gap {
            self.back_off(partition, index);
        } else {
            // The refusal has its cause in an earlier batch, so it does not count as an attempt.
            batch.attempts = batch.attempts.saturating_sub(1);
        }
        self.remove_if_reported(partition, index);
    }

    fn split(&mut self, partition: PartitionIndex, index: usize, answer: PartitionAnswer) {
        let queue = &mut self.queues[partition];
        let batch = &mut queue.batches[index];
        if batch.batch.records <= 1 || batch.reported {
            return self.refuse(partition, index, answer);
        }
        queue.draining = queue.in_flight > 0;
        batch.phase = Phase::Splitting;
        let batch = batch.batch.id;
        self.emit(Output::Split { batch });
    }

    fn refuse(&mut self, partition: PartitionIndex, index: usize, answer: PartitionAnswer) {
        let queue = &mut self.queues[partition];
        queue.draining = queue.in_flight > 0;
        let fault = self.refused_fault(partition, index, answer.code, answer.message, answer.record_errors);
        self.fail_batch(partition, index, fault);
    }

    /// The fault of a batch that a broker refused for good.
    pub(super) fn refused_fault(
        &self,
        partition: PartitionIndex,
        index: usize,
        code: ErrorCode,
        message: Option<String>,
        records: Vec<(i32, Option<String>)>,
    ) -> SendFault {
        let queue = &self.queues[partition];
        let named = records.into_iter().filter_map(|(index, reason)| {
            Some((u32::try_from(index).ok()?, reason.unwrap_or_else(|| code.message().to_owned())))
        });
        SendFault::Refused {
            partition: queue.topic_partition.clone(),
            code,
            message,
            attempts: queue.batches.get(index).map_or(0, |batch| batch.attempts),
            records: named.collect(),
        }
    }

    fn back_off(&mut self, partition: PartitionIndex, index: usize) {
        let attempts = self.queues[partition].batches[index].attempts;
        let delay = self.config.backoff.delay(attempts.saturating_sub(1), &mut self.jitter);
        let queue = &mut self.queues[partition];
        queue.retry_at = queue.retry_at.max(self.now + delay);
    }
}

impl FailedAttempt {
    fn lost(reason: &str) -> Self {
        Self { outcome_unknown: true, code: ErrorCode::NetworkException, message: Some(reason.to_owned()) }
    }
}

impl std::fmt::Display for FailedAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.code.name(), self.message.as_deref().unwrap_or(self.code.message()))
    }
}
