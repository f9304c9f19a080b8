//! Bounded reads: a range of each partition, no group, ending by position.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_columns::{ColumnBatch, ColumnSet};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::{ResetPolicy, Start};
use tokio::runtime::Handle;

use crate::config::ClientConfig;
use crate::consumer::{Consumer, Found, Want};
use crate::error::ClientError;

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The smallest offset of the log, as it is when the read begins.
    Earliest,
    /// The end of the log, as it is when the read begins.
    Latest,
    /// This offset; negative counts back from the end.
    Offset(i64),
    /// The first record whose timestamp is at least this, in ms; the end if there is none.
    Timestamp(i64),
}

/// What to read of a partition: from `start` to before `end`.
#[derive(Clone, Debug)]
pub struct Range {
    /// Partition.
    pub partition: TopicPartition,
    /// First offset.
    pub start: Bound,
    /// Offset after the last.
    pub end: Bound,
}

/// A read that ends. Positions, not counts, decide: compacted gaps and transaction markers neither hang nor fail.
pub struct Reader {
    consumer: Consumer,
    ranges: BTreeMap<TopicPartition, (i64, i64)>,
    stalled_since: Instant,
    /// Offsets passed, as of the last batch; never less, whatever becomes of the consumer.
    passed: i64,
    done: bool,
}

impl Reader {
    /// A consumer for the read. Under its own policy a position outside of the log is an error, never a jump.
    pub fn consumer(mut config: ClientConfig, columns: ColumnSet, runtime: &Handle, seed: u64) -> Consumer {
        config.reset = ResetPolicy::Fail;
        Consumer::new(config, columns, runtime, seed)
    }

    /// Looks the ranges' bounds up, on `consumer`.
    ///
    /// # Errors
    /// If a partition does not exist, a bound lies outside of the log, or `timeout` passes.
    pub async fn resolve(
        consumer: &Consumer,
        ranges: Vec<Range>,
        timeout: Duration,
    ) -> Result<BTreeMap<TopicPartition, (i64, i64)>, ClientError> {
        let partitions: Vec<TopicPartition> = ranges.iter().map(|range| range.partition.clone()).collect();
        let starts = consumer.beginning_offsets(partitions.clone(), timeout);
        let ends = consumer.end_offsets(partitions, timeout);
        let times = ranges.iter().flat_map(|range| {
            [range.start, range.end].into_iter().filter_map(|bound| match bound {
                Bound::Timestamp(timestamp_ms) => Some((range.partition.clone(), timestamp_ms)),
                _ => None,
            })
        });
        let mut by_time = BTreeMap::new();
        let (starts, ends) = (starts.await?, ends.await?);
        for (partition, timestamp_ms) in times.collect::<Vec<_>>() {
            let found = consumer.offsets_for_times(vec![(partition.clone(), timestamp_ms)], timeout).await?;
            by_time.insert((partition.clone(), timestamp_ms), found.get(&partition).copied().flatten());
        }
        let mut resolved = BTreeMap::new();
        for range in ranges {
            let log = (offset(&starts, &range.partition), offset(&ends, &range.partition));
            let find = |bound| place(&range.partition, bound, log, &by_time);
            let (start, end) = (find(range.start)?, find(range.end)?);
            check(&range.partition, start, end, log)?;
            resolved.insert(range.partition, (start, end.max(start)));
        }
        Ok(resolved)
    }

    /// Starts reading.
    ///
    /// # Errors
    /// If the consumer is closed.
    pub fn start(consumer: Consumer, ranges: BTreeMap<TopicPartition, (i64, i64)>) -> Result<Self, ClientError> {
        let open = ranges.iter().filter(|(_, (start, end))| start < end);
        let assignment =
            open.map(|(partition, &(start, end))| (partition.clone(), Start::Offset(start, -1), Some(end)));
        consumer.assign(assignment.collect())?;
        Ok(Self { consumer, ranges, stalled_since: Instant::now(), passed: 0, done: false })
    }

    /// The next batch, `None` at the end. Waits at most until `until`: then the inner `None` says to call again.
    ///
    /// # Errors
    /// Any error of a partition ends the read: part of a range is no answer. So does `default.api.timeout.ms` without
    /// progress, and a consumer that was closed before the end.
    pub fn next_batch(&mut self, want: &Want, until: Instant) -> Result<Option<Option<ColumnBatch>>, ClientError> {
        if self.is_done() {
            return Ok(None);
        }
        let batch = self.consumer.next_batch(want, until)?;
        let (passed, _) = self.progress();
        if passed != self.passed {
            (self.passed, self.stalled_since) = (passed, Instant::now());
        }
        if batch.is_none() && self.is_done() {
            return Ok(None);
        }
        let timeout = self.consumer.config().default_api_timeout;
        if batch.is_none() && self.stalled_since.elapsed() > timeout {
            let last_error = self.consumer.health().failing.map(|(_, error)| error);
            return Err(ClientError::TimedOut { what: "progress of the read".into(), after: timeout, last_error });
        }
        Ok(Some(batch))
    }

    fn is_done(&mut self) -> bool {
        if !self.done && self.consumer.is_done() {
            self.done = true;
            self.passed = self.progress().1;
        }
        self.done
    }

    /// Offsets passed, and offsets in all ranges.
    pub fn progress(&self) -> (i64, i64) {
        let statuses = self.consumer.statuses();
        let mut sums = (0, 0);
        for (partition, &(start, end)) in &self.ranges {
            let position = statuses.get(partition).and_then(|status| status.position).unwrap_or(start);
            sums.0 += position.clamp(start, end) - start;
            sums.1 += end - start;
        }
        (sums.0.max(self.passed), sums.1)
    }

    /// The ranges as looked up: first offset, and offset after the last.
    pub fn ranges(&self) -> &BTreeMap<TopicPartition, (i64, i64)> {
        &self.ranges
    }

    /// The consumer underneath.
    pub fn inner(&self) -> &Consumer {
        &self.consumer
    }
}

fn offset(offsets: &BTreeMap<TopicPartition, Option<Found>>, partition: &TopicPartition) -> i64 {
    offsets.get(partition).copied().flatten().map_or(0, |found| found.offset)
}

fn place(
    partition: &TopicPartition,
    bound: Bound,
    (log_start, log_end): (i64, i64),
    by_time: &BTreeMap<(TopicPartition, i64), Option<Found>>,
) -> Result<i64, ClientError> {
    Ok(match bound {
        Bound::Earliest => log_start,
        Bound::Latest => log_end,
        Bound::Offset(offset) if offset < 0 => (log_end + offset).max(log_start),
        Bound::Offset(offset) => offset,
        Bound::Timestamp(timestamp_ms) => {
            by_time.get(&(partition.clone(), timestamp_ms)).copied().flatten().map_or(log_end, |found| found.offset)
        }
    })
}

fn check(
    partition: &TopicPartition,
    start: i64,
    end: i64,
    (log_start, log_end): (i64, i64),
) -> Result<(), ClientError> {
    let wrong = if start < log_start || start > log_end {
        Some(start)
    } else {
        Some(end).filter(|&end| end > log_end && end > start)
    };
    match wrong {
        Some(offset) => Err(monedula_engine::fetch::Fault::OffsetOutOfRange {
            partition: partition.clone(),
            offset,
            log_start,
            log_end,
        }
        .into()),
        None => Ok(()),
    }
}
