//! The machine's ListOffsets and OffsetForLeaderEpoch calls, each a task of its own that ends in an event.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::{ListedOffset, Start};
use monedula_protocol::error_code::ErrorCode;

use super::{Event, Running};
use crate::offsets::{Answer, EARLIEST, LATEST, Offsets, Question};
use crate::reach::Reach;
use crate::tasks::caught;

/// The answer for a partition of a lookup that got none: the machine waits for exactly one.
const UNANSWERED: Answer = Err(ErrorCode::NetworkException);

impl Running {
    pub(super) fn list_offsets(&self, lookups: BTreeMap<TopicPartition, (u64, Start)>) {
        if lookups.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        let (reach, due) = (self.driver.reach.clone(), self.driver.config.fetch_max_wait);
        reach.lookup_began();
        tokio::spawn(async move {
            let spans: BTreeMap<TopicPartition, u64> =
                lookups.iter().map(|(partition, (span, _))| (partition.clone(), *span)).collect();
            let by_time = lookups.values().any(|(_, start)| matches!(start, Start::Timestamp(_)));
            let questions = lookups.into_iter().map(|(partition, (_, start))| {
                let what = match start {
                    Start::Earliest => EARLIEST,
                    Start::Timestamp(timestamp_ms) => timestamp_ms,
                    Start::Latest | Start::Policy | Start::Offset(..) => LATEST,
                };
                Question { partition, what }
            });
            let answers = caught(offsets.list_once(questions.collect())).await.unwrap_or_default();
            note(&reach, &offsets, due, &answers);
            let mut answers: BTreeMap<TopicPartition, Answer> = answers.into_iter().collect();
            let answers = spans.into_iter().map(|(partition, span)| {
                let answer = answers.remove(&partition).unwrap_or(UNANSWERED);
                (partition, span, listed_offset(answer, by_time, None))
            });
            let _ = events.send(Event::ListedOffsets { answers: answers.collect() });
        });
    }

    /// Finds both ends of logs that do not hold a position.
    pub(super) fn list_log_ranges(&self, ranges: BTreeMap<TopicPartition, u64>) {
        if ranges.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        let (reach, due) = (self.driver.reach.clone(), self.driver.config.fetch_max_wait);
        reach.lookup_began();
        tokio::spawn(async move {
            let ask = |what| ranges.keys().map(|partition| Question { partition: partition.clone(), what }).collect();
            let starts = caught(offsets.list_once(ask(EARLIEST))).await.unwrap_or_default();
            let ends = caught(offsets.list_once(ask(LATEST))).await.unwrap_or_default();
            note(&reach, &offsets, due, &ends);
            let starts: BTreeMap<TopicPartition, Answer> = starts.into_iter().collect();
            let ends: BTreeMap<TopicPartition, Answer> = ends.into_iter().collect();
            let answers = ranges.into_iter().map(|(partition, span)| {
                let start = starts.get(&partition).copied().unwrap_or(UNANSWERED);
                let end = ends.get(&partition).copied().unwrap_or(UNANSWERED);
                let answer = match start {
                    Ok(Some(start)) => listed_offset(end, false, Some(start.offset)),
                    Ok(None) => Err(ErrorCode::UnknownServerError),
                    Err(code) => Err(code),
                };
                (partition, span, answer)
            });
            let _ = events.send(Event::ListedOffsets { answers: answers.collect() });
        });
    }

    pub(super) fn ask_epoch_ends(&self, validations: BTreeMap<TopicPartition, (u64, i32)>) {
        if validations.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        let (reach, due) = (self.driver.reach.clone(), self.driver.config.fetch_max_wait);
        reach.lookup_began();
        tokio::spawn(async move {
            let spans: BTreeMap<TopicPartition, u64> =
                validations.iter().map(|(partition, (span, _))| (partition.clone(), *span)).collect();
            let questions = validations
                .into_iter()
                .map(|(partition, (_, epoch))| Question { partition, what: i64::from(epoch) })
                .collect();
            let answers = caught(offsets.epoch_ends_once(questions)).await.unwrap_or_default();
            note(&reach, &offsets, due, &answers);
            let mut answers: BTreeMap<TopicPartition, Answer> = answers.into_iter().collect();
            let answers = spans.into_iter().map(|(partition, span)| {
                let answer = answers.remove(&partition).unwrap_or(UNANSWERED);
                (partition, span, answer.map(|found| found.map(|end| end.offset)))
            });
            let _ = events.send(Event::EpochEnds { answers: answers.collect() });
        });
    }
}

/// A lookup that no leader answered is a failure of the leaders.
fn note(reach: &Reach, offsets: &Offsets, due: Duration, answers: &[(TopicPartition, Answer)]) {
    match answers.iter().any(|(_, answer)| !matches!(answer, Err(ErrorCode::NetworkException))) {
        true => reach.lookup_answered(),
        false => {
            let trouble = offsets.network.trouble();
            reach.lookup_failed(trouble.unwrap_or_else(|| ErrorCode::NetworkException.name().into()), due);
        }
    }
}

/// The answer of ListOffsets for the machine. Only a lookup by time may find nothing.
fn listed_offset(answer: Answer, by_time: bool, log_start: Option<i64>) -> Result<Option<ListedOffset>, ErrorCode> {
    match answer? {
        Some(found) => Ok(Some(ListedOffset { offset: found.offset, leader_epoch: found.leader_epoch, log_start })),
        None if by_time => Ok(None),
        None => Err(ErrorCode::UnknownServerError),
    }
}
