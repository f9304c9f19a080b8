//! The machine's ListOffsets and OffsetForLeaderEpoch calls: each leader is asked in a task of its own that ends in an
//! event, so that a slow one delays its own partitions alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::{EpochEnd, ListOffsetsAnswer, Start};
use monedula_protocol::error_code::ErrorCode;

use super::{Event, Running};
use crate::offsets::{EARLIEST, LATEST, LookupResult, MAX_TIMESTAMP, OfLeader, Offsets, Question};
use crate::reach::Reach;
use crate::tasks::caught;
use crate::wall_clock::now_ms;

type Answers<X> = Vec<(TopicPartition, u64, Result<X, ErrorCode>)>;

impl Running {
    pub(super) fn list_offsets(&self, lookups: BTreeMap<TopicPartition, (u64, Start)>) {
        let what = |start| match start {
            Start::Earliest => EARLIEST,
            Start::Timestamp(timestamp_ms) => timestamp_ms,
            // Before 1970 the names of places begin.
            Start::Ago(age) => now_ms().saturating_sub_unsigned(age.as_millis().try_into().unwrap_or(u64::MAX)).max(0),
            Start::Latest | Start::Policy | Start::Offset(..) => LATEST,
        };
        let lookups =
            lookups.into_iter().map(|(partition, (reading_id, start))| (partition, (reading_id, what(start))));
        self.ask_leaders(lookups.collect(), list_offsets, |answers| Event::ListedOffsets { answers });
    }

    /// Finds both ends of logs that do not hold a position.
    pub(super) fn list_log_ranges(&self, ranges: BTreeMap<TopicPartition, u64>) {
        let lookups = ranges.into_iter().map(|(partition, reading_id)| (partition, (reading_id, EARLIEST)));
        self.ask_leaders(lookups.collect(), list_log_ranges, |answers| Event::ListedOffsets { answers });
    }

    pub(super) fn ask_epoch_ends(&self, validations: BTreeMap<TopicPartition, (u64, i32)>) {
        let lookups =
            validations.into_iter().map(|(partition, (reading_id, epoch))| (partition, (reading_id, i64::from(epoch))));
        self.ask_leaders(lookups.collect(), epoch_ends, |answers| Event::EpochEnds { answers });
    }

    /// `lookups` has the question about each partition, and the id of its reading. The machine waits for exactly one
    /// answer of each.
    fn ask_leaders<X, T>(
        &self,
        lookups: BTreeMap<TopicPartition, (u64, i64)>,
        ask: fn(Offsets, OfLeader) -> T,
        event: fn(Answers<X>) -> Event,
    ) where
        X: Send + 'static,
        T: Future<Output = Vec<(TopicPartition, Result<X, ErrorCode>)>> + Send + 'static,
    {
        let questions =
            lookups.iter().map(|(partition, (_, what))| Question { partition: partition.clone(), what: *what });
        for asked in self.driver.base.offsets.by_leader(questions.collect()) {
            let of_leader = asked.questions.iter().map(|question| &question.partition);
            let reading_ids: BTreeMap<TopicPartition, u64> =
                of_leader.map(|partition| (partition.clone(), lookups[partition].0)).collect();
            let (offsets, events) = (self.driver.base.offsets.clone(), self.events.clone());
            let (reach, due) = (self.driver.reach.clone(), self.driver.base.config.fetch_max_wait);
            reach.lookup_began();
            tokio::spawn(async move {
                let answers = caught(ask(offsets.clone(), asked)).await.unwrap_or_default();
                note(&reach, &offsets, due, &answers);
                let mut answers: BTreeMap<TopicPartition, Result<X, ErrorCode>> = answers.into_iter().collect();
                let answers = reading_ids.into_iter().map(|(partition, reading_id)| {
                    let answer = answers.remove(&partition).unwrap_or(Err(ErrorCode::NetworkException));
                    (partition, reading_id, answer)
                });
                let _ = events.send(event(answers.collect()));
            });
        }
    }
}

async fn list_offsets(
    offsets: Offsets,
    asked: OfLeader,
) -> Vec<(TopicPartition, Result<Option<ListOffsetsAnswer>, ErrorCode>)> {
    // All but the names that ListOffsets has for places in the log are times.
    let is_time = |question: &Question| !(MAX_TIMESTAMP..=LATEST).contains(&question.what);
    let times: BTreeSet<TopicPartition> = asked
        .questions
        .iter()
        .filter(|question| is_time(question))
        .map(|question| question.partition.clone())
        .collect();
    let answers = offsets.list_once(asked).await;
    let listed = |(partition, answer): (TopicPartition, LookupResult)| {
        let by_time = times.contains(&partition);
        (partition, listed_offset(answer, by_time, None))
    };
    answers.into_iter().map(listed).collect()
}

async fn list_log_ranges(
    offsets: Offsets,
    asked: OfLeader,
) -> Vec<(TopicPartition, Result<Option<ListOffsetsAnswer>, ErrorCode>)> {
    let mut ends = asked.clone();
    ends.questions.iter_mut().for_each(|question| question.what = LATEST);
    let starts: BTreeMap<TopicPartition, LookupResult> = offsets.clone().list_once(asked).await.into_iter().collect();
    let range = |(partition, end): (TopicPartition, LookupResult)| {
        let answer = match starts.get(&partition).copied().unwrap_or(Err(ErrorCode::NetworkException)) {
            Ok(Some(start)) => listed_offset(end, false, Some(start.offset)),
            Ok(None) => Err(ErrorCode::UnknownServerError),
            Err(code) => Err(code),
        };
        (partition, answer)
    };
    offsets.list_once(ends).await.into_iter().map(range).collect()
}

async fn epoch_ends(offsets: Offsets, asked: OfLeader) -> Vec<(TopicPartition, Result<EpochEnd, ErrorCode>)> {
    let end = |(partition, answer): (TopicPartition, LookupResult)| {
        (partition, answer.map(|found| found.map(|end| end.offset)))
    };
    offsets.epoch_ends_once(asked).await.into_iter().map(end).collect()
}

/// A lookup that its leader did not answer is a failure of it.
fn note<X>(reach: &Reach, offsets: &Offsets, due: Duration, answers: &[(TopicPartition, Result<X, ErrorCode>)]) {
    match answers.iter().any(|(_, answer)| !matches!(answer, Err(ErrorCode::NetworkException))) {
        true => reach.lookup_answered(),
        false => {
            let trouble = offsets.network.trouble();
            reach.lookup_failed(trouble.unwrap_or_else(|| ErrorCode::NetworkException.name().into()), due);
        }
    }
}

/// The answer of ListOffsets for the machine. Only a lookup by time may find nothing.
fn listed_offset(
    answer: LookupResult,
    by_time: bool,
    log_start: Option<i64>,
) -> Result<Option<ListOffsetsAnswer>, ErrorCode> {
    match answer? {
        Some(found) => {
            Ok(Some(ListOffsetsAnswer { offset: found.offset, leader_epoch: found.leader_epoch, log_start }))
        }
        None if by_time => Ok(None),
        None => Err(ErrorCode::UnknownServerError),
    }
}
