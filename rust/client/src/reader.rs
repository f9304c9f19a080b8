//! Bounded reads: a range of each partition, no group, ending by position.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use monedula_columns::{BatchColumns, ColumnBatch};
use monedula_engine::TopicPartition;
use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::{Fault, ResetPolicy, Start};
use tokio::runtime::Handle;

use crate::config::ClientConfig;
use crate::consumer::{BatchLimits, Consumer, FoundOffset};
use crate::error::ClientError;
use crate::residual::{Residual, keep};
use crate::run_time::RunInstant;

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

/// Part of a partition: from `start` to before `end`.
#[derive(Clone, Debug)]
pub struct Range {
    /// Partition.
    pub partition: TopicPartition,
    /// First offset.
    pub start: Bound,
    /// Offset after the last.
    pub end: Bound,
}

/// Bounds of each partition: the first offset, and the offset after the last.
pub type Ranges = BTreeMap<TopicPartition, (i64, i64)>;

/// Range to read of each partition: spans of offsets in ascending order that do not overlap.
pub type Spans = BTreeMap<TopicPartition, Vec<(i64, i64)>>;

/// Time for which a log may be shorter than a range that is read from it. A broker that has just become the leader may
/// not know the end of its log yet.
const SHORT_LOG_GRACE: Duration = Duration::from_secs(10);

/// A read that has stalled says that brokers fail if they have for at least so long; a blip at its end is no reason.
const SHORT_STALL: Duration = Duration::from_secs(1);

/// Reads that end, one after another, over the same connections. Positions, not counts, decide: compacted gaps and
/// transaction markers neither hang nor fail.
pub struct Reader {
    consumer: Arc<Consumer>,
    /// The spans that are read now, one of each partition.
    ranges: Ranges,
    /// Spans that are read after them, one of each partition at a time.
    later: VecDeque<Ranges>,
    spans: Spans,
    in_order: bool,
    residual: Residual,
    stalled_since: Instant,
    /// The same, in the time in which the process ran.
    standing_since: RunInstant,
    /// Offsets passed, as of the last batch; never less, whatever becomes of the consumer.
    passed: i64,
    done: bool,
}

impl Reader {
    /// Connects to nothing yet. Whatever `config` says, a position outside of the log is an error, never a jump.
    pub fn new(mut config: ClientConfig, columns: impl Into<BatchColumns>, runtime: &Handle, seed: u64) -> Self {
        config.reset = ResetPolicy::Fail;
        Self {
            consumer: Arc::new(Consumer::new(config, columns, runtime, seed)),
            ranges: Ranges::new(),
            later: VecDeque::new(),
            spans: Spans::new(),
            in_order: false,
            residual: Residual::new(),
            stalled_since: Instant::now(),
            standing_since: RunInstant::now(),
            passed: 0,
            done: true,
        }
    }

    /// From the next read on, rows come partition by partition, in the order of topics and partitions, so that each
    /// read of the same offsets has the same sequence of rows. Of later partitions a little is fetched ahead.
    pub fn read_in_order(&mut self) {
        self.in_order = true;
        self.consumer.read_in_order();
    }

    /// Looks the ranges' bounds up, on `consumer`.
    ///
    /// # Errors
    /// If a partition does not exist, a bound lies outside of the log, or `timeout` passes.
    pub async fn resolve(consumer: &Consumer, ranges: Vec<Range>, timeout: Duration) -> Result<Ranges, ClientError> {
        Self::find(consumer, ranges, timeout).await.map_err(of_read)
    }

    async fn find(consumer: &Consumer, ranges: Vec<Range>, timeout: Duration) -> Result<Ranges, ClientError> {
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
        // A request may ask for one time of a partition only: the second time of a range comes in a second request.
        let mut rounds: Vec<BTreeMap<TopicPartition, i64>> = Vec::new();
        for (partition, timestamp_ms) in times {
            match rounds.iter_mut().find(|round| round.get(&partition).is_none_or(|&other| other == timestamp_ms)) {
                Some(round) => _ = round.insert(partition, timestamp_ms),
                None => rounds.push(BTreeMap::from([(partition, timestamp_ms)])),
            }
        }
        let (starts, ends) = (starts.await?, ends.await?);
        for round in rounds {
            let found = consumer.offsets_for_times(round.clone().into_iter().collect(), timeout).await?;
            by_time.extend(round.into_iter().map(|(partition, timestamp_ms)| {
                let place = found.get(&partition).copied().flatten();
                ((partition, timestamp_ms), place)
            }));
        }
        let mut resolved = Ranges::new();
        for range in ranges {
            let log = (offset(&starts, &range.partition), offset(&ends, &range.partition));
            let find = |bound| place(&range.partition, bound, log, &by_time);
            let (start, end) = (find(range.start)?, find(range.end)?);
            check(&range.partition, start, end, log)?;
            resolved.insert(range.partition, (start, end.max(start)));
        }
        Ok(resolved)
    }

    /// Begins to read `ranges`, in place of the read before. With a view of the `cluster`, nothing is looked up before
    /// the first fetch.
    ///
    /// # Errors
    /// If the reader is closed.
    pub fn begin(&mut self, ranges: Ranges, cluster: Option<&Cluster>) -> Result<(), ClientError> {
        let spans = ranges.into_iter().map(|(partition, range)| (partition, vec![range]));
        self.begin_spans(spans.collect(), cluster)
    }

    /// As [`Self::begin`], for several spans of a partition. What lies between them is not fetched.
    ///
    /// # Errors
    /// If the reader is closed.
    pub fn begin_spans(&mut self, spans: Spans, cluster: Option<&Cluster>) -> Result<(), ClientError> {
        let mut rounds = if self.in_order { rounds_in_order(&spans) } else { rounds(&spans) };
        let first = rounds.pop_front().unwrap_or_default();
        self.read(first, cluster)?;
        (self.spans, self.later, self.passed) = (spans, rounds, 0);
        self.residual = Residual::new();
        Ok(())
    }

    fn read(&mut self, ranges: Ranges, cluster: Option<&Cluster>) -> Result<(), ClientError> {
        let open = ranges.iter().filter(|(_, (start, end))| start < end);
        let assignment =
            open.map(|(partition, &(start, end))| (partition.clone(), Start::Offset(start, -1), Some(end)));
        self.consumer.assign_known(assignment.collect(), cluster)?;
        (self.ranges, self.done) = (ranges, false);
        (self.stalled_since, self.standing_since) = (Instant::now(), RunInstant::now());
        Ok(())
    }

    /// Keeps only these of the rows of the read that has begun.
    pub fn keep_only(&mut self, residual: Residual) {
        self.residual = residual;
    }

    /// Ends the read early. The connections stay.
    ///
    /// # Errors
    /// If the reader is closed.
    pub fn end(&mut self) -> Result<(), ClientError> {
        self.passed = self.progress().0;
        self.later.clear();
        self.done = true;
        self.consumer.unassign()
    }

    /// The next batch, `None` at the end. Waits at most until `until`: then the inner `None` says to call again.
    ///
    /// # Errors
    /// Any error of a partition ends the read: part of a range is no answer. So does `default.api.timeout.ms` without
    /// progress, a log that is shorter than its range, and a reader that was closed before the end.
    pub fn next_batch(
        &mut self,
        want: &BatchLimits,
        until: Instant,
    ) -> Result<Option<Option<ColumnBatch>>, ClientError> {
        self.take_batch(want, until).map_err(of_read)
    }

    fn take_batch(&mut self, want: &BatchLimits, until: Instant) -> Result<Option<Option<ColumnBatch>>, ClientError> {
        while self.is_done() {
            if !self.begin_next()? {
                return Ok(None);
            }
        }
        let batch = self.consumer.next_batch(want, until)?;
        let (passed, _) = self.progress();
        if passed != self.passed {
            (self.passed, self.stalled_since, self.standing_since) = (passed, Instant::now(), RunInstant::now());
        }
        if batch.is_none() && self.is_done() {
            return if self.begin_next()? { Ok(Some(None)) } else { Ok(None) };
        }
        if batch.is_none() {
            self.check_stall()?;
        }
        Ok(Some(batch.and_then(|batch| self.kept(batch))))
    }

    /// Begins the next spans. False if there are none.
    fn begin_next(&mut self) -> Result<bool, ClientError> {
        let Some(next) = self.later.pop_front() else { return Ok(false) };
        self.read(next, None)?;
        Ok(true)
    }

    fn kept(&self, batch: ColumnBatch) -> Option<ColumnBatch> {
        if self.residual.is_empty() {
            return Some(batch);
        }
        Some(keep(batch, &self.residual)).filter(|batch| batch.record_batch.num_rows() > 0)
    }

    fn check_stall(&self) -> Result<(), ClientError> {
        let (stalled, timeout) = (self.standing_since.elapsed(), self.consumer.config().default_api_timeout);
        if stalled > SHORT_LOG_GRACE.min(timeout)
            && let Some(fault) = self.short_log()
        {
            return Err(fault.into());
        }
        if stalled > timeout {
            self.consumer.check_failing(SHORT_STALL)?;
            let failed = self.consumer.metrics().last_failed_fetch(self.stalled_since);
            let last_error = failed.or_else(|| self.consumer.health().failing.map(|(_, error)| error));
            let what = "the wait for the next records of the read".into();
            return Err(ClientError::TimedOut { what, after: timeout, last_error });
        }
        Ok(())
    }

    /// A partition that is read to the end of its log, which comes before the end of its range.
    fn short_log(&self) -> Option<Fault> {
        self.consumer.statuses().into_iter().find_map(|(partition, status)| {
            let &(_, end) = self.ranges.get(&partition)?;
            // The high watermark counts, and not the last stable offset: a transaction that is still open does not make
            // the log shorter.
            let log_end = status.high_watermark?;
            let short = status.position? >= log_end && log_end < end;
            let log_start = status.log_start_offset.unwrap_or(0);
            short.then_some(Fault::OffsetOutOfRange { partition, offset: end, log_start, log_end })
        })
    }

    fn is_done(&mut self) -> bool {
        if !self.done && self.consumer.is_done() {
            self.done = true;
            self.passed = self.progress().1 - self.later.iter().map(offsets_in).sum::<i64>();
        }
        self.done
    }

    /// Offsets passed, and offsets in all spans.
    pub fn progress(&self) -> (i64, i64) {
        let total = self.spans.values().flatten().map(|(start, end)| end - start).sum();
        if self.done {
            return (self.passed, total);
        }
        let left: i64 = self.remaining().iter().map(|(_, (start, end))| end - start).sum();
        (self.passed.max(total - left), total)
    }

    /// Spans that are not handed out yet: the next offset, and the offset after the last.
    pub fn remaining(&self) -> Vec<(TopicPartition, (i64, i64))> {
        let mut left = Vec::new();
        if !self.done {
            let statuses = self.consumer.statuses();
            for (partition, &(start, end)) in &self.ranges {
                let position = statuses.get(partition).and_then(|status| status.position).unwrap_or(start);
                if position < end {
                    left.push((partition.clone(), (position.max(start), end)));
                }
            }
        }
        let later = self.later.iter().flatten().filter(|(_, (start, end))| start < end);
        left.extend(later.map(|(partition, span)| (partition.clone(), *span)));
        left
    }

    /// From the first offset of each partition to the one after its last.
    pub fn ranges(&self) -> Ranges {
        let hull = |spans: &Vec<(i64, i64)>| Some((spans.first()?.0, spans.last()?.1));
        self.spans.iter().filter_map(|(partition, spans)| Some((partition.clone(), hull(spans)?))).collect()
    }

    /// The consumer underneath.
    pub fn inner(&self) -> &Arc<Consumer> {
        &self.consumer
    }
}

/// The spans, one of each partition at a time: the first of each, then the second of each.
fn rounds(spans: &Spans) -> VecDeque<Ranges> {
    let mut rounds = VecDeque::new();
    for (partition, spans) in spans {
        for (index, span) in spans.iter().enumerate() {
            if index == rounds.len() {
                rounds.push_back(Ranges::new());
            }
            rounds[index].insert(partition.clone(), *span);
        }
    }
    rounds
}

/// The spans in the order of partitions and offsets, in as few rounds as have each partition once.
fn rounds_in_order(spans: &Spans) -> VecDeque<Ranges> {
    let mut rounds = VecDeque::<Ranges>::new();
    for (partition, span) in spans.iter().flat_map(|(partition, spans)| spans.iter().map(move |span| (partition, span)))
    {
        match rounds.back_mut().filter(|round| !round.contains_key(partition)) {
            Some(round) => _ = round.insert(partition.clone(), *span),
            None => rounds.push_back(Ranges::from([(partition.clone(), *span)])),
        }
    }
    rounds
}

fn offsets_in(ranges: &Ranges) -> i64 {
    ranges.values().map(|(start, end)| end - start).sum()
}

fn of_read(error: ClientError) -> ClientError {
    match error {
        error @ (ClientError::Partition(_) | ClientError::Decode { .. } | ClientError::Closed) => {
            ClientError::Read(Box::new(error))
        }
        error => error,
    }
}

fn offset(offsets: &BTreeMap<TopicPartition, Option<FoundOffset>>, partition: &TopicPartition) -> i64 {
    offsets.get(partition).copied().flatten().map_or(0, |found| found.offset)
}

fn place(
    partition: &TopicPartition,
    bound: Bound,
    (log_start, log_end): (i64, i64),
    by_time: &BTreeMap<(TopicPartition, i64), Option<FoundOffset>>,
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
        Some(offset) => {
            Err(Fault::OffsetOutOfRange { partition: partition.clone(), offset, log_start, log_end }.into())
        }
        None => Ok(()),
    }
}
