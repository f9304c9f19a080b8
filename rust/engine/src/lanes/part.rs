//! `Part`: rows of one partition that were handed to a run, and the progress on them.

/// See the [module](self). Rows finish in any order; only those before the first unfinished one count.
#[derive(Debug)]
pub(super) struct Part<P> {
    pub(super) payload: P,
    /// Index of the partition.
    pub(super) partition: usize,
    /// Number of the first row among all rows of the partition in this run.
    pub(super) base: u64,
    pub(super) memory_bytes: usize,
    /// Number of rows that wait or are being handled.
    pub(super) open_rows: usize,
    /// True as long as its memory counts: parts are settled in order.
    pub(super) is_queued: bool,
    /// True once the part is in a last report.
    pub(super) is_over: bool,
    /// Number of rows reported as finished.
    pub(super) reported: usize,
    /// Number of rows in committed transactions.
    pub(super) committed: usize,
    /// Number of rows to handle: smaller than the total once the rest was given up.
    kept: usize,
    done: Vec<bool>,
    frontier: usize,
    finished: usize,
    /// First and last rows of calls of the handler with several rows: these are committed together.
    together: Vec<(usize, usize)>,
}

impl<P> Part<P> {
    pub(super) fn new(payload: P, partition: usize, base: u64, rows: usize, memory_bytes: usize) -> Self {
        Self {
            payload,
            partition,
            base,
            memory_bytes,
            open_rows: rows,
            is_queued: true,
            is_over: false,
            reported: 0,
            committed: 0,
            kept: rows,
            done: vec![false; rows],
            frontier: 0,
            finished: 0,
            together: Vec::new(),
        }
    }

    pub(super) fn total(&self) -> usize {
        self.done.len()
    }

    /// Number of rows finished without a gap.
    pub(super) fn frontier(&self) -> usize {
        self.frontier
    }

    pub(super) fn finish(&mut self, row: usize) {
        self.done[row] = true;
        self.finished += 1;
        if row == self.frontier {
            let next = self.done[row..].iter().position(|done| !done);
            self.frontier = next.map_or(self.done.len(), |next| row + next);
        }
    }

    /// Rows that are committed in one transaction.
    pub(super) fn hold_together(&mut self, first: usize, last: usize) {
        if first < last {
            self.together.push((first, last));
        }
    }

    /// Gives up the rows from this one on.
    pub(super) fn give_up(&mut self, row: usize) {
        self.kept = self.kept.min(row);
    }

    /// True if no more rows will count as finished.
    pub(super) fn is_settled(&self) -> bool {
        self.frontier >= self.kept
    }

    pub(super) fn is_complete(&self) -> bool {
        self.frontier == self.done.len()
    }

    /// Number of rows that may be committed: no call of the handler has rows before and after.
    pub(super) fn whole_frontier(&self) -> usize {
        let mut end = self.frontier;
        while let Some(cut) = self.together.iter().filter(|(first, last)| *first < end && end <= *last).min() {
            end = cut.0;
        }
        end
    }

    /// The last rows of the finished calls that begin before this row, and are not committed.
    pub(super) fn calls_before(&self, row: usize) -> Vec<usize> {
        let rows = (self.committed..row).filter(|row| self.done[*row]);
        let across = self.together.iter().filter(|(first, last)| *first < row && row <= *last);
        rows.chain(across.map(|(_, last)| *last)).collect()
    }

    /// Number of rows that are finished, and not committed. After a seek unfinished rows are committed too.
    pub(super) fn uncommitted(&self) -> usize {
        self.finished.saturating_sub(self.committed)
    }

    /// The rows up to `end` are in a committed transaction.
    pub(super) fn commit(&mut self, end: usize) {
        self.committed = self.committed.max(end);
        self.together.retain(|(_, last)| *last >= end);
    }
}
