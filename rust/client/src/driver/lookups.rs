//! The machine's offset lookups, each a task of its own that comes back as an event.

use std::collections::BTreeMap;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::{Resolved, Start};
use monedula_protocol::error_code::ErrorCode;

use super::{Event, Running};
use crate::offsets::{Answer, EARLIEST, LATEST, Question};

impl Running {
    pub(super) fn resolve(&self, lookups: BTreeMap<TopicPartition, (u64, Start)>) {
        if lookups.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
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
            let answers = offsets.list_once(questions.collect()).await;
            let answers = answers.into_iter().filter_map(|(partition, answer)| {
                let span = *spans.get(&partition)?;
                Some((partition, span, resolved(answer, by_time, None)))
            });
            let _ = events.send(Event::Resolved { answers: answers.collect() });
        });
    }

    /// Both ends of logs that do not hold a position.
    pub(super) fn resolve_ranges(&self, ranges: BTreeMap<TopicPartition, u64>) {
        if ranges.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        tokio::spawn(async move {
            let ask = |what| ranges.keys().map(|partition| Question { partition: partition.clone(), what }).collect();
            let starts: BTreeMap<TopicPartition, Answer> = offsets.list_once(ask(EARLIEST)).await.into_iter().collect();
            let ends: BTreeMap<TopicPartition, Answer> = offsets.list_once(ask(LATEST)).await.into_iter().collect();
            let answers = ranges.into_iter().map(|(partition, span)| {
                let missing = Err(ErrorCode::LeaderNotAvailable);
                let start = starts.get(&partition).copied().unwrap_or(missing);
                let end = ends.get(&partition).copied().unwrap_or(missing);
                let answer = match start {
                    Ok(Some(start)) => resolved(end, false, Some(start.offset)),
                    Ok(None) => Err(ErrorCode::UnknownServerError),
                    Err(code) => Err(code),
                };
                (partition, span, answer)
            });
            let _ = events.send(Event::Resolved { answers: answers.collect() });
        });
    }

    pub(super) fn validate(&self, validations: BTreeMap<TopicPartition, (u64, i32)>) {
        if validations.is_empty() {
            return;
        }
        let (offsets, events) = (self.driver.offsets.clone(), self.events.clone());
        tokio::spawn(async move {
            let spans: BTreeMap<TopicPartition, u64> =
                validations.iter().map(|(partition, (span, _))| (partition.clone(), *span)).collect();
            let questions = validations
                .into_iter()
                .map(|(partition, (_, epoch))| Question { partition, what: i64::from(epoch) })
                .collect();
            let answers = offsets.epoch_ends_once(questions).await.into_iter().filter_map(|(partition, answer)| {
                let span = *spans.get(&partition)?;
                Some((partition, span, answer.map(|found| found.map(|end| end.offset))))
            });
            let _ = events.send(Event::Validated { answers: answers.collect() });
        });
    }
}

/// An offset lookup's answer for the machine. Only a lookup by time may find nothing.
fn resolved(answer: Answer, by_time: bool, log_start: Option<i64>) -> Result<Option<Resolved>, ErrorCode> {
    match answer? {
        Some(found) => Ok(Some(Resolved { offset: found.offset, leader_epoch: found.leader_epoch, log_start })),
        None if by_time => Ok(None),
        None => Err(ErrorCode::UnknownServerError),
    }
}
