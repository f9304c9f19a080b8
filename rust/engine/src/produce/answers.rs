//! What brokers say of batches, and what it leads to.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;

use super::io::{Acknowledged, Acks, BatchId, Output, PartitionAnswer, RequestFailure, RequestId, SendFault};
use super::machine::{ProduceMachine, Request, Slot};
use super::queue::Phase;
use super::reactions::{Reaction, reaction};
use crate::TopicPartition;

/// How an attempt failed that is made again.
struct Failed {
    /// The batch may be in the log.
    in_doubt: bool,
    /// The error, for faults.
    code: ErrorCode,
    /// What it says.
    message: Option<String>,
}

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
        request.batches.iter().for_each(|&(slot, _)| self.touch(slot));
    }

    fn partitions_answered(&mut self, request: &Request, answers: Vec<PartitionAnswer>) {
        if let Some(node) = self.nodes.get_mut(&request.broker) {
            node.attempts = 0;
        }
        let mut answers: BTreeMap<TopicPartition, PartitionAnswer> =
            answers.into_iter().map(|answer| (answer.partition.clone(), answer)).collect();
        for &(slot, batch) in &request.batches {
            let Some(index) = self.land(slot, batch) else { continue };
            if self.config.acks == Acks::None {
                self.acknowledge(slot, index, Acknowledged { base_offset: None, log_append_time_ms: None });
                continue;
            }
            match answers.remove(&self.queues[slot].partition) {
                Some(answer) => self.partition_answered(slot, index, answer),
                None => self.try_again(slot, index, Failed::lost("the answer said nothing of the partition")),
            }
        }
    }

    fn request_failed(&mut self, request: &Request, failure: &RequestFailure) {
        let sent = match failure {
            RequestFailure::Fatal(reason) => {
                for &(slot, batch) in &request.batches {
                    let Some(index) = self.land(slot, batch) else { continue };
                    self.give_up(slot, index, SendFault::Fatal { reason: reason.clone() });
                }
                return;
            }
            RequestFailure::Lost(_) => true,
            RequestFailure::NotSent(_) => false,
        };
        self.refresh_wanted = true;
        self.back_off_from(request.broker);
        for &(slot, batch) in &request.batches {
            let Some(index) = self.land(slot, batch) else { continue };
            let (RequestFailure::Lost(reason) | RequestFailure::NotSent(reason) | RequestFailure::Fatal(reason)) =
                failure;
            if sent {
                self.try_again(slot, index, Failed::lost(reason));
            } else {
                self.never_sent(slot, index, reason);
            }
        }
    }

    fn land(&mut self, slot: Slot, batch: BatchId) -> Option<usize> {
        let index = self.queues[slot].find(batch)?;
        self.queues[slot].landed(index);
        Some(index)
    }

    fn partition_answered(&mut self, slot: Slot, index: usize, answer: PartitionAnswer) {
        if let Some((leader, leader_epoch)) = answer.leader {
            let partition = answer.partition.clone();
            self.emit(Output::LeaderHint { partition, leader, leader_epoch });
        }
        let code = answer.code;
        if code == ErrorCode::None {
            let log_append_time_ms = Some(answer.log_append_time_ms).filter(|&time| time >= 0);
            let base_offset = Some(answer.base_offset).filter(|&offset| offset >= 0);
            return self.acknowledge(slot, index, Acknowledged { base_offset, log_append_time_ms });
        }
        let failed = |in_doubt| Failed { in_doubt, code, message: answer.message.clone() };
        match reaction(code) {
            Reaction::Done => {
                let base_offset = Some(answer.base_offset).filter(|&offset| offset >= 0);
                self.acknowledge(slot, index, Acknowledged { base_offset, log_append_time_ms: None });
            }
            Reaction::Retry => self.try_again(slot, index, failed(true)),
            Reaction::RetryRefused => self.try_again(slot, index, failed(false)),
            Reaction::Refresh => {
                self.refresh_wanted = true;
                self.try_again(slot, index, failed(true));
            }
            Reaction::Split => self.split(slot, index, answer),
            Reaction::Renumber => self.out_of_order(slot, index, failed(false)),
            Reaction::Fail => self.refuse(slot, index, answer),
            Reaction::FailInDoubt => {
                self.queues[slot].entries[index].in_doubt = true;
                self.refuse(slot, index, answer);
            }
            Reaction::Fence => self.fail_producer(SendFault::Fenced { reason: code.name().to_owned() }),
            Reaction::FailAll => {
                let fault = self.refused(slot, index, code, answer.message, Vec::new());
                self.give_up(slot, index, fault.clone());
                self.fail_producer(SendFault::Fatal { reason: fault.to_string() });
            }
        }
    }

    fn fail_producer(&mut self, fault: SendFault) {
        if self.config.transactional && !std::mem::replace(&mut self.transaction_failed, true) {
            self.emit(Output::TransactionFailed(fault.clone()));
        }
        self.end(fault);
    }

    fn acknowledge(&mut self, slot: Slot, index: usize, acknowledged: Acknowledged) {
        let queue = &mut self.queues[slot];
        if let Some(end) = queue.entries[index].sequence_end() {
            queue.numbers.acknowledge(end);
        }
        queue.proven = true;
        queue.retry_at = queue.retry_at.min(self.now);
        self.report(slot, index, Ok(acknowledged));
        self.remove(slot, index);
        // The broker takes no batch without those before it, so what it called out of order is there: it only forgot its number.
        let nowhere = Acknowledged { base_offset: None, log_append_time_ms: None };
        for earlier in (0..index).rev() {
            if self.queues[slot].entries[earlier].out_of_order {
                self.report(slot, earlier, Ok(nowhere));
                self.remove(slot, earlier);
            }
        }
    }

    /// The batch was surely not sent: that was no attempt.
    fn never_sent(&mut self, slot: Slot, index: usize, reason: &str) {
        let queue = &mut self.queues[slot];
        let entry = &mut queue.entries[index];
        entry.attempts = entry.attempts.saturating_sub(1);
        entry.last_error = Some(reason.to_owned());
        queue.draining = queue.in_flight > 0;
        queue.doubt_refusals();
        self.forget_if_reported(slot, index);
    }

    fn try_again(&mut self, slot: Slot, index: usize, failed: Failed) {
        let queue = &mut self.queues[slot];
        queue.draining = queue.in_flight > 0;
        queue.doubt_refusals();
        let entry = &mut queue.entries[index];
        entry.in_doubt |= failed.in_doubt;
        entry.last_error = Some(failed.to_string());
        if entry.attempts > self.config.retries {
            let fault = self.refused(slot, index, failed.code, failed.message, Vec::new());
            return self.give_up(slot, index, fault);
        }
        self.back_off(slot, index);
        self.forget_if_reported(slot, index);
    }

    fn out_of_order(&mut self, slot: Slot, index: usize, failed: Failed) {
        let config = &self.config;
        let queue = &mut self.queues[slot];
        if !config.idempotent {
            let fault = self.refused(slot, index, failed.code, failed.message, Vec::new());
            return self.give_up(slot, index, fault);
        }
        let end = queue.entries[index].sequence_end();
        if end.is_some_and(|end| end <= queue.numbers.acknowledged) {
            let nowhere = Acknowledged { base_offset: None, log_append_time_ms: None };
            return self.acknowledge(slot, index, nowhere);
        }
        queue.draining = queue.in_flight > 0;
        let first = queue.is_first_missing(index);
        let explained = queue.numbers.is_broken();
        // A broker that misses something knows the producer.
        queue.proven |= failed.code == ErrorCode::OutOfOrderSequenceNumber;
        let entry = &mut queue.entries[index];
        entry.last_error = Some(failed.to_string());
        (entry.out_of_order, entry.refused_with) = (first, Some(failed.code));
        if first && !explained {
            self.back_off(slot, index);
        } else {
            // It is another's fault.
            entry.attempts = entry.attempts.saturating_sub(1);
        }
        self.forget_if_reported(slot, index);
    }

    fn split(&mut self, slot: Slot, index: usize, answer: PartitionAnswer) {
        let queue = &mut self.queues[slot];
        let entry = &mut queue.entries[index];
        if entry.batch.records <= 1 || entry.reported {
            return self.refuse(slot, index, answer);
        }
        queue.draining = queue.in_flight > 0;
        entry.phase = Phase::Splitting;
        let batch = entry.batch.id;
        self.emit(Output::Split { batch });
    }

    fn refuse(&mut self, slot: Slot, index: usize, answer: PartitionAnswer) {
        let queue = &mut self.queues[slot];
        queue.draining = queue.in_flight > 0;
        let fault = self.refused(slot, index, answer.code, answer.message, answer.record_errors);
        self.give_up(slot, index, fault);
    }

    /// The fault of a batch that a broker refused for good.
    pub(super) fn refused(
        &self,
        slot: Slot,
        index: usize,
        code: ErrorCode,
        message: Option<String>,
        records: Vec<(i32, Option<String>)>,
    ) -> SendFault {
        let queue = &self.queues[slot];
        let named = records.into_iter().filter_map(|(index, reason)| {
            Some((u32::try_from(index).ok()?, reason.unwrap_or_else(|| code.message().to_owned())))
        });
        SendFault::Refused {
            partition: queue.partition.clone(),
            code,
            message,
            attempts: queue.entries.get(index).map_or(0, |entry| entry.attempts),
            records: named.collect(),
        }
    }

    fn back_off(&mut self, slot: Slot, index: usize) {
        let attempts = self.queues[slot].entries[index].attempts;
        let delay = self.config.backoff.delay(attempts.saturating_sub(1), &mut self.jitter);
        let queue = &mut self.queues[slot];
        queue.retry_at = queue.retry_at.max(self.now + delay);
    }
}

impl Failed {
    fn lost(reason: &str) -> Self {
        Self { in_doubt: true, code: ErrorCode::NetworkException, message: Some(reason.to_owned()) }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.code.name(), self.message.as_deref().unwrap_or(self.code.message()))
    }
}
