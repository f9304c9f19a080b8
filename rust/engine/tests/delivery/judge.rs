//! What must hold at the end, and what is broken on purpose.

use std::collections::{BTreeMap, BTreeSet};

use monedula_engine::produce::{Acknowledged, BatchId, SendFault};

use crate::sim::Sim;

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each batch and each flush has one end.
    Ends,
    /// What is acknowledged is in the log, where it was said to be.
    Lost,
    /// What surely failed is not in the log.
    Unwanted,
    /// Nothing is there twice.
    Twice,
    /// Records of a partition are there in the order in which they were sent.
    Order,
}

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Batches go out without sequence numbers.
    Unnumbered,
    /// A lost request counts as acknowledged.
    LostIsGood,
    /// A request that was refused is taken for one that was never sent to anybody, and sent again by another number.
    Renumbered,
    /// The end of a batch is forgotten now and then.
    Untold,
}

impl Bug {
    pub(crate) const ALL: &[(Self, &[Rule])] = &[
        (Self::Unnumbered, &[Rule::Twice, Rule::Order]),
        (Self::LostIsGood, &[Rule::Lost]),
        (Self::Renumbered, &[Rule::Twice, Rule::Order]),
        (Self::Untold, &[Rule::Ends]),
    ];
}

/// What was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) acknowledged: usize,
    pub(crate) without_offset: usize,
    pub(crate) timed_out: usize,
    pub(crate) in_doubt: usize,
    pub(crate) lost_requests: usize,
    pub(crate) zombies: usize,
    pub(crate) splits: usize,
    pub(crate) epochs: usize,
    pub(crate) moves: usize,
    pub(crate) restarts: usize,
    pub(crate) flushes: usize,
}

impl Figures {
    fn each(&mut self) -> [&mut usize; 11] {
        [
            &mut self.acknowledged,
            &mut self.without_offset,
            &mut self.timed_out,
            &mut self.in_doubt,
            &mut self.lost_requests,
            &mut self.zombies,
            &mut self.splits,
            &mut self.epochs,
            &mut self.moves,
            &mut self.restarts,
            &mut self.flushes,
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        self.each().into_iter().zip(other.each()).for_each(|(mine, more)| *mine += *more);
    }

    /// A broker of this kind remembers what it acknowledged, so that there is always an offset.
    pub(crate) fn all_met(&self) -> bool {
        let mut all = self.clone();
        all.without_offset = 1;
        all.each().into_iter().all(|count| *count > 0)
    }
}

type Outcome = Result<Acknowledged, SendFault>;

impl Sim {
    pub(crate) fn judge(&mut self) -> Result<Figures, (Rule, String)> {
        if let Some(problem) = self.problem.take() {
            return Err((Rule::Ends, problem));
        }
        if self.machine.unfinished() > 0 || self.flushed != self.figures.flushes {
            return Err((Rule::Ends, format!("{} batches have no end", self.machine.unfinished())));
        }
        for partition in 0..self.partitions {
            let log = self.broker.log(self.now, partition);
            self.judge_log(partition, &log)?;
        }
        Ok(self.figures.clone())
    }

    fn judge_log(&mut self, partition: i32, log: &[(i64, u64)]) -> Result<(), (Rule, String)> {
        let mut places: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (offset, record) in log {
            places.entry(*record).or_default().push(*offset);
        }
        let once = self.idempotent;
        // Without sequence numbers a batch may be there again, later: in order are those that came first.
        let mut seen = BTreeSet::new();
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

fn judge_record(once: bool, number: i64, found: &[i64], outcome: &Outcome) -> Result<(), Rule> {
    match outcome {
        Ok(_) if found.is_empty() => Err(Rule::Lost),
        Ok(Acknowledged { base_offset: Some(base), .. }) if !found.contains(&(base + number)) => Err(Rule::Lost),
        Err(SendFault::TimedOut { in_doubt: false, .. }) if !found.is_empty() => Err(Rule::Unwanted),
        _ if once && found.len() > 1 => Err(Rule::Twice),
        _ => Ok(()),
    }
}

impl Figures {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Ok(Acknowledged { base_offset: None, .. }) => self.without_offset += 1,
            Ok(_) => self.acknowledged += 1,
            Err(SendFault::TimedOut { in_doubt: true, .. }) => self.in_doubt += 1,
            Err(SendFault::TimedOut { .. }) => self.timed_out += 1,
            Err(_) => {}
        }
    }
}
