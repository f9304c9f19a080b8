//! Committed offsets of gained partitions. Only a lookup that succeeded and found nothing leaves the start to the policy
//! (contract 4).

use monedula_protocol::error_code::ErrorCode;

use super::member::{InFlight, Kind, Member};
use super::reactions::reaction;
use super::timers::Timer;
use super::{Reaction, State};
use crate::group::{Answer, Call, CallId, Output, topic_ids};
use crate::{Now, TopicPartition};

impl Member {
    /// Looks up what is committed of partitions that were gained.
    pub(super) fn advance_lookup(&mut self, now: Now) {
        let idle = self.starting.is_empty() || self.offset_fetch_id.is_some() || self.timers.waits(Timer::Offsets, now);
        if idle || self.generation < 0 || self.state == State::Fatal {
            return;
        }
        let call = Call::OffsetFetch {
            group_id: self.config.group_id.clone(),
            member: None,
            partitions: self.starting.iter().cloned().collect(),
            topic_ids: topic_ids(&self.owned, self.starting.iter()),
        };
        self.offset_fetch_id = self.send(Kind::Offsets, call, now);
        self.asked = self.starting.clone();
    }

    pub(super) fn looked_up(&mut self, id: CallId, call: InFlight, outcome: Result<Answer, String>, now: Now) {
        if self.offset_fetch_id != Some(id) {
            return;
        }
        self.offset_fetch_id = None;
        let asked = std::mem::take(&mut self.asked);
        let (code, offsets) = match outcome {
            Ok(Answer::OffsetFetch { code, offsets }) => (code, offsets),
            Ok(_) => return self.look_up_again(now),
            Err(reason) => {
                self.coordinator_lost(call.node_id, &reason, false, now);
                return self.look_up_again(now);
            }
        };
        self.coordinator_answered(code);
        if code != ErrorCode::None {
            return match reaction(Kind::Offsets.api(), code) {
                Reaction::Fail => self.fail(self.error_of(Kind::Offsets.api(), code), now),
                Reaction::Tell => {
                    asked.into_iter().for_each(|partition| self.start_refused(partition, code, now));
                }
                reacted => {
                    self.retried(Kind::Offsets.api(), code);
                    self.coordinator_error(reacted, call, code.name(), now);
                    self.look_up_again(now);
                }
            };
        }
        // Partitions that were given up meanwhile, or were not asked for, are none of ours; those that came meanwhile are asked
        // for next.
        let mut starts = Vec::new();
        let mut again = None;
        for (partition, found) in offsets {
            if !asked.contains(&partition) {
                continue;
            }
            match found {
                Ok(committed) => {
                    self.starting.remove(&partition);
                    self.refused.remove(&partition);
                    let is_new = committed.is_none() && self.is_new(&partition);
                    starts.push((partition, committed, is_new));
                }
                Err(code) => match reaction(Kind::Offsets.api(), code) {
                    Reaction::Tell | Reaction::Fail => self.start_refused(partition, code, now),
                    reacted => again = Some((code, reacted)),
                },
            }
        }
        if !starts.is_empty() {
            self.push(Output::StartingOffsets { partitions: starts });
        }
        if self.refused.is_empty() {
            self.refused_attempts = 0;
        }
        match again {
            Some((code, reacted)) => {
                self.retried(Kind::Offsets.api(), code);
                if code == ErrorCode::UnknownTopicId {
                    // If it was made anew, metadata tells, and then it is gained anew.
                    self.push(Output::RefreshMetadata);
                }
                self.coordinator_error(reacted, call, code.name(), now);
                self.look_up_again(now);
            }
            // The answer left some out.
            None if asked.iter().any(|partition| self.starting.contains(partition)) => self.look_up_again(now),
            None => self.lookup_attempts = 0,
        }
    }

    /// The user is told, once for each error. What is wrong may be mended, such as a permission that is missing: so it is asked for
    /// again, apart from what is gained meanwhile.
    fn start_refused(&mut self, partition: TopicPartition, code: ErrorCode, now: Now) {
        self.starting.remove(&partition);
        if self.refused.insert(partition.clone(), code) != Some(code) {
            self.push(Output::StartingOffsetFailed { partition, code });
        }
        if self.timers.at(Timer::Refused).is_none() {
            let delay = self.config.backoff.delay(self.refused_attempts, &mut self.jitter);
            self.refused_attempts = self.refused_attempts.saturating_add(1);
            self.timers.set(Timer::Refused, now + delay);
        }
    }

    fn look_up_again(&mut self, now: Now) {
        let delay = self.config.backoff.delay(self.lookup_attempts, &mut self.jitter);
        self.lookup_attempts = self.lookup_attempts.saturating_add(1);
        self.timers.set(Timer::Offsets, now + delay);
    }
}
