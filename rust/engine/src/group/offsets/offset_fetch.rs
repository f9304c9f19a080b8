//! OffsetFetch: the starting offsets of newly assigned partitions. `auto.offset.reset` applies only after a fetch that
//! succeeded and found no committed offset (contract 4).

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;

use super::first_seen::FirstSeen;
use crate::group::messages::{CallId, GroupOutcome, GroupResponse, Output, Reaction};
use crate::group::outbox::{Outbox, Timer};
use crate::{Now, TopicPartition};

/// Partitions whose committed offsets are not known yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffsetFetch {
    waiting: BTreeSet<TopicPartition>,
    /// Partitions for which the coordinator answers with an error, with the error that was reported to the user.
    refused: BTreeMap<TopicPartition, ErrorCode>,
    refused_attempts: u32,
    in_flight: Option<CallId>,
    /// The partitions of the call in flight that the member has owned ever since it was sent.
    asked: BTreeSet<TopicPartition>,
    attempts: u32,
}

/// The result of an answer for the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OffsetsFetched {
    /// Nothing more is to be done.
    Done,
    /// The coordinator did not answer, for this reason.
    Lost(String),
    /// The fetch is retried. The error may also mean that this broker is not the coordinator.
    Retry(ErrorCode),
    /// The error ends the membership.
    Failed(ErrorCode),
}

impl OffsetFetch {
    /// Adds assigned partitions, whose committed offsets are needed.
    pub(crate) fn add(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) {
        self.waiting.extend(partitions);
    }

    /// Removes partitions that the member does not own any more.
    pub(crate) fn release(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.waiting.retain(|partition| !partitions.contains(partition));
        self.refused.retain(|partition, _| !partitions.contains(partition));
        self.asked.retain(|partition| !partitions.contains(partition));
    }

    /// Removes all partitions. An offset that a call in flight brings may be outdated by the time that its partition is
    /// assigned again.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.refused.clear();
        self.asked.clear();
    }

    /// The backoff of refused partitions is over: they are fetched again.
    pub(crate) fn retry_refused(&mut self) {
        self.waiting.extend(self.refused.keys().cloned());
    }

    /// The partitions whose committed offsets are not known, without those that the coordinator refused.
    pub(crate) fn waiting(&self) -> &BTreeSet<TopicPartition> {
        &self.waiting
    }

    /// The waiting partitions to ask for now; `None` if there are none, while a call is in flight, and during
    /// a backoff. `may_ask`: whether the partition can be named in a request already.
    pub(crate) fn next(
        &self,
        may_ask: impl Fn(&TopicPartition) -> bool,
        out: &Outbox,
        now: Now,
    ) -> Option<BTreeSet<TopicPartition>> {
        if self.in_flight.is_some() || out.timers.waits(Timer::OffsetFetch, now) {
            return None;
        }
        let partitions: BTreeSet<_> = self.waiting.iter().filter(|partition| may_ask(partition)).cloned().collect();
        Some(partitions).filter(|partitions| !partitions.is_empty())
    }

    /// The call for these partitions was sent; `id` is `None` if the coordinator was not known.
    pub(crate) fn sent(&mut self, id: Option<CallId>, partitions: BTreeSet<TopicPartition>) {
        (self.in_flight, self.asked) = (id, partitions);
    }

    pub(crate) fn is_answer(&self, id: CallId) -> bool {
        self.in_flight == Some(id)
    }

    /// Takes the answer to the call in flight.
    pub(crate) fn answered(
        &mut self,
        outcome: GroupOutcome,
        reaction: impl Fn(ErrorCode) -> Reaction,
        first_seen: &FirstSeen,
        out: &mut Outbox,
        now: Now,
    ) -> OffsetsFetched {
        self.in_flight = None;
        let asked = std::mem::take(&mut self.asked);
        let (code, offsets) = match outcome {
            Ok(GroupResponse::OffsetFetch { code, offsets }) => (code, offsets),
            Ok(_) => {
                out.back_off(Timer::OffsetFetch, &mut self.attempts, now);
                return OffsetsFetched::Done;
            }
            Err(reason) => {
                out.back_off(Timer::OffsetFetch, &mut self.attempts, now);
                return OffsetsFetched::Lost(reason);
            }
        };
        if code != ErrorCode::None {
            return self.refused(code, asked, reaction(code), out, now);
        }
        // Partitions that were released meanwhile, or not asked for, are ignored. Those that were assigned meanwhile
        // are in the next call.
        let mut starts = Vec::new();
        let mut again = None;
        for (partition, found) in offsets.into_iter().filter(|(partition, _)| asked.contains(partition)) {
            match found {
                Ok(committed) => {
                    self.waiting.remove(&partition);
                    self.refused.remove(&partition);
                    let is_new = committed.is_none() && first_seen.is_new(&partition);
                    starts.push((partition, committed, is_new));
                }
                // An error of one partition never ends the membership.
                Err(code) if matches!(reaction(code), Reaction::Report | Reaction::Fail) => {
                    self.refuse(partition, code, out, now)
                }
                Err(code) => again = Some(code),
            }
        }
        if !starts.is_empty() {
            out.push(Output::StartingOffsets { partitions: starts });
        }
        if self.refused.is_empty() {
            self.refused_attempts = 0;
        }
        let is_incomplete = asked.iter().any(|partition| self.waiting.contains(partition));
        match again {
            Some(code) => {
                out.back_off(Timer::OffsetFetch, &mut self.attempts, now);
                return OffsetsFetched::Retry(code);
            }
            // The answer left out partitions.
            None if is_incomplete => out.back_off(Timer::OffsetFetch, &mut self.attempts, now),
            None => self.attempts = 0,
        }
        OffsetsFetched::Done
    }

    /// Takes an error that concerns the whole answer.
    fn refused(
        &mut self,
        code: ErrorCode,
        asked: BTreeSet<TopicPartition>,
        reaction: Reaction,
        out: &mut Outbox,
        now: Now,
    ) -> OffsetsFetched {
        match reaction {
            // None of the requested partitions is owned any more.
            Reaction::Fail if asked.is_empty() => OffsetsFetched::Done,
            Reaction::Fail => OffsetsFetched::Failed(code),
            Reaction::Report => {
                asked.into_iter().for_each(|partition| self.refuse(partition, code, out, now));
                OffsetsFetched::Done
            }
            _ => {
                out.back_off(Timer::OffsetFetch, &mut self.attempts, now);
                OffsetsFetched::Retry(code)
            }
        }
    }

    /// Reports the error to the user, once for each different error. The partition is fetched again separately from
    /// newly assigned ones, which need not wait for its backoff.
    fn refuse(&mut self, partition: TopicPartition, code: ErrorCode, out: &mut Outbox, now: Now) {
        self.waiting.remove(&partition);
        if self.refused.insert(partition.clone(), code) != Some(code) {
            out.push(Output::StartingOffsetFailed { partition, code });
        }
        if out.timers.at(Timer::RefusedOffsets).is_none() {
            out.back_off(Timer::RefusedOffsets, &mut self.refused_attempts, now);
        }
    }
}
