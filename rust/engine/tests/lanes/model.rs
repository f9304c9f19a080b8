//! `Model`: what is true of each row of a run, kept beside the machine by the simplest means.

use std::collections::{BTreeMap, BTreeSet};

use monedula_engine::lanes::{Order, Report, RoundPart};

/// The offset of a row.
pub(crate) fn offset(part: usize, row: usize) -> i64 {
    (part * 10 + row) as i64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Waiting,
    Running(usize),
    Finished,
    GivenUp,
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) partition: i32,
    pub(crate) keys: Vec<Option<String>>,
    pub(crate) rows: Vec<Row>,
    /// Rows that were handled by one call with the ones after them.
    pub(crate) together: Vec<(usize, usize)>,
    pub(crate) reported: usize,
    pub(crate) is_over: bool,
    pub(crate) committed: usize,
    pub(crate) is_abandoned: bool,
}

impl Part {
    fn frontier(&self) -> usize {
        self.rows.iter().take_while(|row| **row == Row::Finished).count()
    }
}

/// See the [module](self). The payload of a part is its index here.
pub(crate) struct Model {
    order: Order,
    pub(crate) parts: Vec<Part>,
    /// The last row begun, by partition.
    begun: BTreeMap<i32, (usize, usize)>,
    frozen: BTreeSet<i32>,
}

impl Model {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, parts: Vec::new(), begun: BTreeMap::new(), frozen: BTreeSet::new() }
    }

    pub(crate) fn count(&self, is_such: impl Fn(Row) -> bool) -> usize {
        self.parts.iter().flat_map(|part| &part.rows).filter(|row| is_such(**row)).count()
    }

    /// Rows that wait are given up, if they are such.
    pub(crate) fn give_up(&mut self, is_such: impl Fn(&Self, usize, usize) -> bool) {
        let waits = |(at, row): &(usize, usize)| self.parts[*at].rows[*row] == Row::Waiting;
        let given_up: Vec<_> = self.places().filter(waits).filter(|(at, row)| is_such(self, *at, *row)).collect();
        given_up.into_iter().for_each(|(at, row)| self.parts[at].rows[row] = Row::GivenUp);
    }

    pub(crate) fn freeze(&mut self, partition: i32) {
        if self.frozen.insert(partition) {
            let begun = self.begun.get(&partition).copied();
            self.give_up(|model, at, row| model.parts[at].partition == partition && Some((at, row)) > begun);
        }
    }

    pub(crate) fn abandon(&mut self, is_such: impl Fn(i32) -> bool) {
        let such = self.parts.iter_mut().filter(|part| is_such(part.partition));
        such.for_each(|part| part.is_abandoned = true);
    }

    pub(crate) fn thaw(&mut self) {
        self.frozen.clear();
    }

    /// The rows that a worker handles.
    pub(crate) fn running(&self, worker: usize) -> Vec<(usize, usize)> {
        self.places().filter(|(at, row)| self.parts[*at].rows[*row] == Row::Running(worker)).collect()
    }

    /// A worker takes rows of a part.
    pub(crate) fn take(&mut self, worker: usize, at: usize, rows: &[usize]) {
        assert!(rows.is_sorted());
        for &row in rows {
            assert_eq!(self.parts[at].rows[row], Row::Waiting, "row {row} of part {at} is begun twice");
            if let Some(lane) = self.lane(at, row) {
                let earlier =
                    self.places().filter(|place| *place < (at, row) && !(place.0 == at && rows.contains(&place.1)));
                for (part, other) in earlier.filter(|(part, other)| self.lane(*part, *other).as_ref() == Some(&lane)) {
                    let state = self.parts[part].rows[other];
                    assert!(
                        matches!(state, Row::Finished | Row::GivenUp),
                        "row {row} of part {at} is begun before row {other} of part {part}, which is {state:?}"
                    );
                }
            }
        }
        rows.iter().for_each(|row| self.parts[at].rows[*row] = Row::Running(worker));
        let begun = self.begun.entry(self.parts[at].partition).or_default();
        *begun = (*begun).max((at, *rows.last().unwrap()));
    }

    /// The call of a worker has ended.
    pub(crate) fn end(&mut self, worker: usize, becomes: Row) {
        for part in &mut self.parts {
            let is_its = |row: &&mut Row| **row == Row::Running(worker);
            let places: Vec<usize> = (0..part.rows.len()).filter(|at| part.rows[*at] == Row::Running(worker)).collect();
            part.rows.iter_mut().filter(is_its).for_each(|row| *row = becomes);
            if let (Row::Finished, Some(first), Some(last)) = (becomes, places.first(), places.last()) {
                part.together.push((*first, *last));
            }
        }
    }

    pub(crate) fn reports(&mut self, reports: &[Report<usize>], is_transactional: bool) {
        for report in reports {
            let part = &self.parts[report.payload];
            assert!(!part.is_over, "part {} is reported after its last report", report.payload);
            assert_eq!(report.total, part.rows.len());
            let most = if is_transactional { part.committed } else { part.frontier() };
            assert!(report.rows <= most, "{} rows of part {} are reported of {most}", report.rows, report.payload);
            assert!(report.rows >= part.reported);
            if report.rows < report.total {
                let mut earlier = self.parts[..report.payload].iter().filter(|each| each.partition == part.partition);
                assert!(earlier.all(|each| each.is_over), "part {} is reported before earlier ones", report.payload);
            }
            // In a run with transactions an earlier part may have the gap.
            let has_gap = is_transactional || part.is_abandoned || part.rows.contains(&Row::GivenUp);
            assert!(!report.is_left_behind() || has_gap, "part {} is left behind without a reason", report.payload);
            let part = &mut self.parts[report.payload];
            part.reported = report.rows;
            part.is_over = report.is_last;
        }
    }

    /// A transaction has these rows.
    pub(crate) fn commit(&mut self, round: &[RoundPart<usize>]) {
        for each in round {
            let RoundPart { payload, begin, end, sought, .. } = each;
            let part = &self.parts[*payload];
            assert_eq!(*begin, part.committed);
            let is_whole = |(first, last): &(usize, usize)| *first >= *end || last < end;
            assert!(part.together.iter().all(is_whole), "a call of part {payload} is divided at {end}");
            match sought {
                None => assert!(*end <= part.frontier(), "rows up to {end} of part {payload} are committed"),
                Some(_) => assert_eq!(*end, part.rows.len()),
            }
            for (first, last) in part.together.iter().filter(|(_, last)| last >= begin) {
                let is_before = sought.is_none_or(|sought| offset(*payload, *first) < sought);
                assert_eq!(each.has_call(*last), *last < *end && is_before, "the call with rows {first} to {last}");
            }
            for (row, state) in part.rows.iter().enumerate().filter(|(_, state)| **state != Row::Finished) {
                assert!(!each.has_call(row), "row {row} of part {payload} is committed, and not finished");
                assert!(row >= *end || !matches!(state, Row::Running(_)), "part {payload} is committed too early");
            }
            let mut earlier = self.parts[..*payload].iter().filter(|each| each.partition == part.partition);
            assert!(earlier.all(|each| each.committed == each.rows.len()), "part {payload} is committed behind a gap");
            self.parts[*payload].committed = *end;
        }
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.parts.iter().enumerate().flat_map(|(at, part)| (0..part.rows.len()).map(move |row| (at, row)))
    }

    pub(crate) fn lane(&self, at: usize, row: usize) -> Option<(i32, String)> {
        let part = &self.parts[at];
        match self.order {
            Order::Key => part.keys[row].clone().map(|key| (part.partition, key)),
            Order::Partition => Some((part.partition, String::new())),
            Order::None => None,
        }
    }
}
