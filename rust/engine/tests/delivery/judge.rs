//! The properties that must hold at the end of a run, and the faults that are planted on purpose.

use std::collections::{BTreeMap, BTreeSet};

use monedula_engine::TopicPartition;
use monedula_engine::produce::{Acknowledged, Acks, BatchId, SendFault};
use monedula_engine::transaction::Ending;
use monedula_protocol::error_code::ErrorCode;

use crate::network::Link;
use crate::sim::Sim;

/// The properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each batch and each flush ends once.
    Ends,
    /// Acknowledged records are in the log, at the acknowledged offset.
    Lost,
    /// Records that failed with a known outcome are not in the log.
    Unwanted,
    /// A batch fails only for a reason: its delivery timeout is over, or its transaction failed.
    Causeless,
    /// No record is in the log twice.
    Twice,
    /// A partition's records are in the log in the order in which they were sent; with acks=0, those of one connection.
    Order,
    /// A committed transaction is complete.
    Whole,
    /// No record of an aborted transaction is visible.
    Aborted,
    /// The group has the offsets of the last committed transaction that had offsets.
    Offsets,
    /// No transaction stays open.
    Open,
}

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Batches are sent without sequence numbers.
    Unnumbered,
    /// A lost request counts as acknowledged.
    LostIsGood,
    /// A refused request counts as never sent, and is sent again with another sequence number.
    Renumbered,
    /// The outcome of a batch is sometimes dropped.
    Untold,
    /// Requests of a connection overtake each other.
    Overtaken,
    /// A commit does not wait for the records that were sent before.
    CommitsAtOnce,
    /// An abort commits.
    AbortCommits,
    /// The transaction does not learn of records that were given up.
    FailureUnsaid,
    /// Batches are not marked as transactional.
    NotTransactional,
    /// Offsets count as committed without a request.
    OffsetsDropped,
    /// Records that waited are added to the transaction that is open then, not to their own.
    OfAnyTransaction,
    /// Brokers accept writes that arrive too late, as those before Kafka 3.6 do.
    Unverified,
    /// Acknowledged records are sometimes reported as timed out.
    GivenUpEarly,
    /// After an InitProducerId without an answer, an abort is reported as fenced.
    FencedForNothing,
    /// With acks=0, a request is sometimes not sent.
    Dropped,
    /// The transaction gets a failure that did not happen.
    SpoiltForNothing,
}

impl Bug {
    pub(crate) const ALL: &[(Self, &[Rule])] = &[
        (Self::Unnumbered, &[Rule::Twice, Rule::Order]),
        (Self::LostIsGood, &[Rule::Lost]),
        (Self::Renumbered, &[Rule::Twice, Rule::Order]),
        (Self::Untold, &[Rule::Ends]),
        (Self::Overtaken, &[Rule::Order]),
        (Self::CommitsAtOnce, &[Rule::Whole, Rule::Ends, Rule::Causeless]),
        (Self::AbortCommits, &[Rule::Aborted]),
        (Self::FailureUnsaid, &[Rule::Whole, Rule::Aborted]),
        (Self::NotTransactional, &[Rule::Whole, Rule::Aborted, Rule::Ends]),
        (Self::OffsetsDropped, &[Rule::Offsets]),
        (Self::OfAnyTransaction, &[Rule::Aborted]),
        // A late write becomes part of a transaction that nobody ends, or of the next one.
        (Self::Unverified, &[Rule::Open, Rule::Aborted]),
        (Self::GivenUpEarly, &[Rule::Causeless]),
        (Self::FencedForNothing, &[Rule::Ends]),
        (Self::Dropped, &[Rule::Lost]),
        (Self::SpoiltForNothing, &[Rule::Causeless]),
    ];
}

/// Counts of what happened in the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) acknowledged: usize,
    pub(crate) without_offset: usize,
    pub(crate) timed_out: usize,
    pub(crate) outcome_unknown: usize,
    pub(crate) lost_requests: usize,
    pub(crate) zombies: usize,
    pub(crate) splits: usize,
    pub(crate) epochs: usize,
    pub(crate) moves: usize,
    pub(crate) restarts: usize,
    pub(crate) flushes: usize,
    /// With acks=0: records in the log, and lost ones.
    pub(crate) silent: usize,
    pub(crate) silent_lost: usize,
    pub(crate) committed: usize,
    pub(crate) aborted: usize,
    /// Transactions that could not be committed.
    pub(crate) spoilt: usize,
    /// Ends without an answer in time.
    pub(crate) unheard: usize,
    pub(crate) lost_calls: usize,
    /// Records that waited before they were added to a batch, and records that were waiting when their transaction was
    /// aborted.
    pub(crate) waited: usize,
    pub(crate) taken_back: usize,
    /// Producers that fenced themselves.
    pub(crate) fenced: usize,
}

impl Figures {
    fn each(&mut self) -> [&mut usize; 21] {
        [
            &mut self.acknowledged,
            &mut self.without_offset,
            &mut self.timed_out,
            &mut self.outcome_unknown,
            &mut self.lost_requests,
            &mut self.zombies,
            &mut self.splits,
            &mut self.epochs,
            &mut self.moves,
            &mut self.restarts,
            &mut self.flushes,
            &mut self.silent,
            &mut self.silent_lost,
            &mut self.committed,
            &mut self.aborted,
            &mut self.spoilt,
            &mut self.unheard,
            &mut self.lost_calls,
            &mut self.waited,
            &mut self.taken_back,
            &mut self.fenced,
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        self.each().into_iter().zip(other.each()).for_each(|(mine, more)| *mine += *more);
    }

    /// Such a broker remembers what it acknowledged, so there is always an offset. One producer in a few thousand
    /// fences itself, which a `long` run has to include.
    pub(crate) fn all_met(&self, long: bool) -> bool {
        let mut all = self.clone();
        all.without_offset = 1;
        all.fenced += usize::from(!long);
        all.each().into_iter().all(|count| *count > 0)
    }

    /// Records may be lost or fail for a reason, but seldom: at most twice as often as in 20,000 seeds. In these, a
    /// quarter of the records with acks=0 was lost with connections and leaders, half a percent of the others timed
    /// out, one transaction in a hundred could not be committed, and three producers fenced themselves.
    pub(crate) fn within_bounds(&self, seeds: usize) -> bool {
        self.silent_lost <= self.silent
            && self.timed_out + self.outcome_unknown <= self.acknowledged / 100
            && self.spoilt + self.unheard <= (self.committed + self.aborted) / 20
            && self.fenced <= 1 + seeds / 2000
    }
}

type DeliveryOutcome = Result<Acknowledged, SendFault>;

impl Sim {
    pub(crate) fn judge(&mut self) -> Result<Figures, (Rule, String)> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        if self.machine.unfinished() > 0 || self.flushed != self.figures.flushes || !self.is_idle() {
            return Err((Rule::Ends, format!("{} batches have no end", self.machine.unfinished())));
        }
        let mut seen = BTreeSet::new();
        for partition in 0..self.partitions {
            let Some(log) = self.broker.log(self.now, partition) else {
                return Err((Rule::Open, format!("{partition}: a transaction is open")));
            };
            match self.acks {
                Acks::None => self.judge_silent(partition, &log)?,
                _ => self.judge_log(partition, &log)?,
            }
            seen.extend(log.into_iter().map(|(_, record)| record));
        }
        self.judge_transactions(&seen)?;
        Ok(self.figures.clone())
    }

    /// With acks=0, no record has an offset, and the records of one connection are in order.
    fn judge_silent(&mut self, partition: i32, log: &[(i64, u64)]) -> Result<(), (Rule, String)> {
        let mut last: BTreeMap<Link, u64> = BTreeMap::new();
        for (_, record) in log {
            // If the record was sent by two connections, it is not known which one this is.
            let [link] = self.ways[record][..] else { continue };
            if last.insert(link, *record).is_some_and(|before| before > *record) {
                return Err((Rule::Order, format!("{partition}: {record} by connection {link}")));
            }
        }
        let there: BTreeSet<u64> = log.iter().map(|(_, record)| *record).collect();
        // Records on a connection that never breaks arrive.
        for (record, ways) in self.ways.iter().filter(|(record, _)| !there.contains(record)) {
            let of_partition = |(place, records): &(i32, Vec<u64>)| *place == partition && records.contains(record);
            if ways.iter().any(|link| self.network.held(*link)) && self.contents.values().any(of_partition) {
                return Err((Rule::Lost, format!("{partition}: {record}, by connections {ways:?}")));
            }
        }
        for (batch, outcome) in &self.done {
            let Some((place, records)) = self.contents.get(batch).filter(|(place, _)| *place == partition) else {
                continue;
            };
            let found = records.iter().filter(|record| there.contains(record)).count();
            match outcome {
                Ok(Acknowledged { base_offset: Some(_), .. }) => {
                    return Err((Rule::Lost, format!("{place}: {batch} has an offset that no answer named")));
                }
                Err(SendFault::TimedOut { outcome_unknown: false, .. }) if found > 0 => {
                    return Err((Rule::Unwanted, format!("{place}: {batch}")));
                }
                _ => {}
            }
            self.figures.silent += found;
            self.figures.silent_lost += records.len() - found;
        }
        Ok(())
    }

    /// Checks that a failed batch has a reason.
    pub(crate) fn judge_fault(&mut self, batch: BatchId, fault: &SendFault) {
        let waited = self.now - self.opened[&batch];
        let caused = match fault {
            SendFault::TimedOut { .. } => waited >= self.delivery_timeout,
            SendFault::Aborted | SendFault::TransactionFailed { .. } => self.user.is_some(),
            SendFault::Fenced { .. } => self.user.as_ref().is_some_and(crate::user::User::is_fenced),
            // A batch before it was given up, so its sequence number is missing. That would be another transaction's.
            SendFault::Refused { code: ErrorCode::OutOfOrderSequenceNumber, .. } => {
                self.user.is_some() && self.gave_up_before(batch)
            }
            SendFault::Refused { code: ErrorCode::InvalidProducerEpoch, .. } => {
                self.user.as_ref().is_some_and(crate::user::User::is_fenced)
            }
            _ => false,
        };
        if !caused {
            self.problem.get_or_insert((Rule::Causeless, format!("batch {batch} after {waited:?}: {fault}")));
        }
    }

    /// Whether a batch with records of the transaction failed.
    pub(crate) fn has_failed(&self, records: &[u64]) -> bool {
        let mut failed = self.done.iter().filter(|(_, outcome)| outcome.is_err());
        failed.any(|(batch, _)| self.contents[batch].1.iter().any(|record| records.binary_search(record).is_ok()))
    }

    /// Whether a batch of the same partition with earlier records was given up. Ids do not show it: the parts of a
    /// batch that was split have newer ids than the batches behind it.
    fn gave_up_before(&self, batch: BatchId) -> bool {
        let place = |batch| (self.contents[batch].0, self.contents[batch].1.first());
        let (partition, first) = place(&batch);
        let given_up = self.done.iter().filter(|(_, outcome)| matches!(outcome, Err(SendFault::TimedOut { .. })));
        given_up.map(|(other, _)| place(other)).any(|(there, other)| there == partition && other < first)
    }

    /// An outcome for a batch that has not failed.
    pub(crate) fn too_late(&self, batch: BatchId) -> SendFault {
        SendFault::TimedOut {
            partition: TopicPartition::new(crate::broker::TOPIC, self.contents[&batch].0),
            after: self.delivery_timeout,
            attempts: 1,
            outcome_unknown: true,
            last_error: None,
        }
    }

    fn judge_transactions(&mut self, seen: &BTreeSet<u64>) -> Result<(), (Rule, String)> {
        let Some(user) = &self.user else { return Ok(()) };
        for (number, transaction) in user.transactions.iter().enumerate() {
            let there = transaction.records.iter().filter(|record| seen.contains(record)).count();
            let text = || format!("transaction {number}: {there} of {:?} are there", transaction.records);
            match transaction.ended {
                Some(Ending::Commit) if there < transaction.records.len() => return Err((Rule::Whole, text())),
                Some(Ending::Abort) if there > 0 => return Err((Rule::Aborted, text())),
                None => return Err((Rule::Ends, text())),
                _ => {}
            }
        }
        let found = self.broker.committed(self.now);
        let found = found.map_err(|code| (Rule::Open, format!("the group's offsets: {}", code.name())))?;
        let expected = user.offset();
        if expected != found {
            return Err((Rule::Offsets, format!("the group has {found:?}, not {expected:?}")));
        }
        Ok(())
    }

    /// Whether a record belongs to a transaction that was aborted.
    fn is_aborted(&self, record: u64) -> bool {
        let aborted = |user: &crate::user::User| {
            let mut aborted = user.transactions.iter().filter(|transaction| transaction.ended == Some(Ending::Abort));
            aborted.any(|transaction| transaction.records.binary_search(&record).is_ok())
        };
        self.user.as_ref().is_some_and(aborted)
    }

    fn judge_log(&mut self, partition: i32, log: &[(i64, u64)]) -> Result<(), (Rule, String)> {
        let mut places: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (offset, record) in log {
            places.entry(*record).or_default().push(*offset);
        }
        let once = self.idempotent;
        // Without sequence numbers, a batch may be in the log twice, and one that was given up may arrive late.
        // Acknowledged batches are in order by their first occurrence.
        let failed = self.done.iter().filter(|(_, outcome)| outcome.is_err());
        let failed = failed.filter_map(|(batch, _)| self.contents.get(batch)).flat_map(|(_, records)| records);
        let mut seen: BTreeSet<u64> = failed.copied().collect();
        let first: Vec<&(i64, u64)> = log.iter().filter(|(_, record)| once || seen.insert(*record)).collect();
        if let Some(pair) = first.windows(2).find(|pair| pair[0].1 > pair[1].1) {
            return Err((Rule::Order, format!("{partition}: {pair:?}")));
        }
        let batches: Vec<BatchId> = self.contents.keys().copied().collect();
        for batch in batches {
            let (place, records) = &self.contents[&batch];
            if *place != partition || self.divided.contains(&batch) {
                continue;
            }
            let Some(outcome) = self.done.get(&batch) else {
                return Err((Rule::Ends, format!("{partition}: batch {batch} has no end")));
            };
            for (number, record) in (0..).zip(records) {
                // Whatever its outcome was, it must not be visible.
                if self.is_aborted(*record) {
                    continue;
                }
                let found = places.get(record).map_or(&[][..], Vec::as_slice);
                judge_record(once, number, found, outcome).map_err(|rule| {
                    (rule, format!("{partition}: {record} of batch {batch}: at {found:?}, {outcome:?}"))
                })?;
            }
            self.figures.count(outcome);
        }
        Ok(())
    }
}

fn judge_record(once: bool, number: i64, found: &[i64], outcome: &DeliveryOutcome) -> Result<(), Rule> {
    match outcome {
        Ok(_) if found.is_empty() => Err(Rule::Lost),
        Ok(Acknowledged { base_offset: Some(base), .. }) if !found.contains(&(base + number)) => Err(Rule::Lost),
        Err(SendFault::TimedOut { outcome_unknown: false, .. }) if !found.is_empty() => Err(Rule::Unwanted),
        _ if once && found.len() > 1 => Err(Rule::Twice),
        _ => Ok(()),
    }
}

impl Figures {
    fn count(&mut self, outcome: &DeliveryOutcome) {
        match outcome {
            Ok(Acknowledged { base_offset: None, .. }) => self.without_offset += 1,
            Ok(_) => self.acknowledged += 1,
            Err(SendFault::TimedOut { outcome_unknown: true, .. }) => self.outcome_unknown += 1,
            Err(SendFault::TimedOut { .. }) => self.timed_out += 1,
            Err(_) => {}
        }
    }
}
