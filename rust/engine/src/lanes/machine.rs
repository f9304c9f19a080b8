//! `Lanes`: the machine; see the [module](super).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::arena::{Arena, Id};
use super::keyed_lanes::KeyedLanes;
use super::lane::Item;
use super::limits::Limits;
use super::order::Order;
use super::part::Part;
use super::partition::Partition;
use super::permission::RowPermission;
use super::report::Report;
use super::task::Task;
use crate::{Now, TopicPartition};

/// Delay of a task that a worker took when the lease was over.
const LEASE_DELAY: Duration = Duration::from_millis(50);

#[derive(Debug)]
enum Ready {
    Lane(Id),
    Task(Task),
}

#[derive(Debug)]
struct Running {
    task: Task,
    since: Now,
}

/// Rows of a run that wait for their handler, and those that are being handled. `P` is what the driver needs to know
/// of a part.
#[derive(Debug)]
pub struct Lanes<P> {
    order: Order,
    limits: Limits,
    pub(super) is_transactional: bool,
    pub(super) partitions: Vec<Partition<P>>,
    indices: BTreeMap<TopicPartition, usize>,
    pub(super) parts: Arena<Part<P>>,
    lanes: KeyedLanes,
    ready: VecDeque<Ready>,
    /// Tasks for another attempt, by their time and a number.
    retries: BTreeMap<(Now, u64), Task>,
    retry_count: u64,
    /// The tasks of workers.
    running: Vec<Option<Running>>,
    /// Last reports that were not taken yet; in a run without transactions.
    settled: Vec<Report<P>>,
    /// Payloads of parts that are over, which the driver drops outside of its lock.
    removed: Vec<P>,
    waiting: usize,
    in_flight: usize,
    queued_bytes: usize,
    /// Number of rows that are finished, and not committed.
    pub(super) uncommitted: usize,
    /// True once a failure ends the run: nothing begins.
    has_failed: bool,
    /// True once the run ends gracefully: pending tasks get one more attempt, at once.
    is_ending: bool,
    /// True once no handler is waited for: what finishes does not count.
    has_ended: bool,
}

impl<P: Clone> Lanes<P> {
    /// Lanes without rows.
    pub fn new(order: Order, limits: Limits, is_transactional: bool) -> Self {
        Self {
            order,
            limits,
            is_transactional,
            partitions: Vec::new(),
            indices: BTreeMap::new(),
            parts: Arena::default(),
            lanes: KeyedLanes::new(limits.rows),
            ready: VecDeque::new(),
            retries: BTreeMap::new(),
            retry_count: 0,
            running: Vec::new(),
            settled: Vec::new(),
            removed: Vec::new(),
            waiting: 0,
            in_flight: 0,
            queued_bytes: 0,
            uncommitted: 0,
            has_failed: false,
            is_ending: false,
            has_ended: false,
        }
    }

    /// Appends a part. `key_of` is asked for the key of each row if rows wait for those with the same key. Returns how
    /// many more tasks of a row can begin.
    pub fn add<'k>(
        &mut self,
        partition: &TopicPartition,
        payload: P,
        rows: usize,
        memory_bytes: usize,
        key_of: impl Fn(usize) -> Option<&'k [u8]>,
    ) -> usize {
        if rows == 0 {
            self.removed.push(payload);
            return 0;
        }
        let index = self.index_of(partition);
        let base = self.partitions[index].rows;
        let part = self.parts.insert(Part::new(payload, index, base, rows, memory_bytes));
        let named = &mut self.partitions[index];
        named.rows += rows as u64;
        named.unsettled.push_back(part);
        if self.is_transactional {
            named.uncommitted.push_back(part);
        }
        let unordered = named.unordered;
        let one = match self.order {
            Order::Key => None,
            Order::Partition => Some(self.lanes.of(index, &[])),
            Order::None => Some(unordered),
        };
        let mut tasks = 0;
        for row in 0..rows {
            let id = match one {
                Some(one) => one,
                None => key_of(row).map_or(unordered, |key| self.lanes.of(index, key)),
            };
            if let Some(lane) = self.lanes.get_mut(id) {
                lane.items.push_back(Item { part, row: row as u32 });
                tasks += usize::from(lane.is_shared || !lane.is_offered);
                if !lane.is_offered {
                    lane.is_offered = true;
                    self.ready.push_back(Ready::Lane(id));
                }
            }
        }
        self.waiting += rows;
        self.queued_bytes += memory_bytes;
        tasks
    }

    /// A worker takes its next task, for which it has to have ended the one before; `false` if there is none now.
    /// `permission` says whether rows of a part may be begun.
    pub fn take(&mut self, worker: usize, now: Now, permission: impl Fn(&P) -> RowPermission) -> bool {
        if self.has_failed {
            return false;
        }
        while let Some(mut task) = self.next_task(now) {
            let permitted = self.parts.get(task.part).map(|part| permission(&part.payload));
            match permitted.unwrap_or(RowPermission::Never) {
                RowPermission::Now => {
                    task.attempts += 1;
                    if self.running.len() <= worker {
                        self.running.resize_with(worker + 1, || None);
                    }
                    self.running[worker] = Some(Running { task, since: now });
                    return true;
                }
                RowPermission::Later => self.again(task, now + LEASE_DELAY),
                RowPermission::Never => self.forget_task(task),
            }
        }
        false
    }

    /// The task of a worker, and the payload of its part.
    pub fn task(&self, worker: usize) -> Option<(&Task, &P)> {
        let Running { task, .. } = self.running.get(worker)?.as_ref()?;
        Some((task, &self.parts.get(task.part)?.payload))
    }

    /// The partition of a worker's task.
    pub fn partition_of(&self, worker: usize) -> Option<&TopicPartition> {
        let Running { task, .. } = self.running.get(worker)?.as_ref()?;
        Some(&self.partitions[self.parts.get(task.part)?.partition].name)
    }

    /// A worker has finished its task. Returns the number of rows, which count unless the run has ended.
    pub fn finish(&mut self, worker: usize) -> usize {
        let Some(task) = self.ended(worker) else { return 0 };
        let count = task.row_count();
        if self.has_ended {
            self.forget_task(task);
            return count;
        }
        if let Some(part) = self.parts.get_mut(task.part) {
            if self.is_transactional {
                part.hold_together(task.first as usize, task.last_row());
                // What was finished of a part that is over does not count any more.
                self.uncommitted += if part.is_over { 0 } else { count };
            }
            part.open_rows -= count;
            for row in task.rows() {
                part.finish(row);
            }
            if part.is_settled() {
                self.settle(task.part);
            }
        }
        self.release_lane(&task);
        count
    }

    /// A worker gives its task up: its rows stay unfinished for good.
    pub fn forget(&mut self, worker: usize) {
        if let Some(task) = self.ended(worker) {
            self.forget_task(task);
        }
    }

    /// The task of a worker is to be tried again at this time; its lane waits for it. While the run ends it is tried
    /// once more, at once; after that it is given up, with what waits behind it in its lane: a record must not be
    /// handled before an earlier one. Returns whether it will be tried.
    pub fn retry(&mut self, worker: usize, now: Now, at: Now) -> bool {
        let Some(mut task) = self.ended(worker) else { return false };
        if task.is_last_attempt {
            self.leave_out(task);
            return false;
        }
        task.is_last_attempt = self.is_ending;
        self.again(task, if self.is_ending { now } else { at });
        true
    }

    /// True if so many workers would find a task now.
    pub fn is_ready_for(&self, workers: usize, now: Now) -> bool {
        if self.has_failed {
            return false;
        }
        let lane_tasks = |id: &Id| match self.lanes.get(*id) {
            Some(lane) if lane.is_shared => lane.items.len(),
            lane => usize::from(lane.is_some_and(|lane| !lane.items.is_empty())),
        };
        let ready = self.ready.iter().map(|ready| match ready {
            Ready::Lane(id) => lane_tasks(id),
            Ready::Task(_) => 1,
        });
        let due = self.retries.keys().take_while(|(at, _)| *at <= now).map(|_| 1);
        let mut tasks = 0;
        ready.chain(due).any(|more| {
            tasks += more;
            tasks >= workers
        })
    }

    /// The time until the next retry is due; `None` without one.
    pub fn next_due(&self, now: Now) -> Option<Duration> {
        if self.has_failed {
            return None;
        }
        self.retries.first_key_value().map(|((at, _), _)| at.saturating_sub(now))
    }

    /// Number of rows that wait for their handler, retries included.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of rows whose handler is running.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Bytes of parts with unfinished rows.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The time for which the oldest handler has run.
    pub fn oldest(&self, now: Now) -> Option<Duration> {
        self.running.iter().flatten().map(|running| now.saturating_sub(running.since)).max()
    }

    /// True if no row waits and no handler runs.
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.in_flight == 0
    }

    /// Number of rows that may be added now; 0 until a quarter of the queue is free.
    pub fn room(&self) -> usize {
        let Limits { rows, bytes, rows_at_once, .. } = self.limits;
        let free = rows.saturating_sub(self.waiting + self.in_flight + self.uncommitted);
        if free * 4 < rows || self.queued_bytes >= bytes { 0 } else { free.min(rows_at_once) }
    }

    /// Begins no row of a partition after the last one begun, so that the finished rows will have no gap.
    pub fn freeze(&mut self, partition: &TopicPartition) {
        if let Some(&index) = self.indices.get(partition) {
            self.freeze_at(index);
        }
    }

    /// Keeps only these partitions frozen.
    pub fn thaw(&mut self, frozen: &BTreeSet<TopicPartition>) {
        for partition in &mut self.partitions {
            partition.is_frozen &= frozen.contains(&partition.name);
        }
    }

    /// Begins nothing after the last rows begun. Retries that are pending get their last attempt now.
    pub fn end_gracefully(&mut self, now: Now) {
        self.is_ending = true;
        (0..self.partitions.len()).for_each(|index| self.freeze_at(index));
        let pending = std::mem::take(&mut self.retries);
        self.retries = pending
            .into_iter()
            .map(|((at, number), mut task)| {
                // A task that was never tried waits for the lease.
                task.is_last_attempt |= task.attempts > 0;
                let at = if task.attempts > 0 { at.min(now) } else { at };
                ((at, number), task)
            })
            .collect();
    }

    /// Begins no further row, nor another attempt.
    pub fn drop_all(&mut self) {
        for index in 0..self.partitions.len() {
            self.partitions[index].is_frozen = true;
            self.drop_after(index, 0);
        }
        let (lanes, mut tasks): (VecDeque<_>, Vec<_>) = (VecDeque::new(), Vec::new());
        let ready = std::mem::replace(&mut self.ready, lanes);
        for each in ready {
            match each {
                Ready::Lane(_) => self.ready.push_back(each),
                Ready::Task(task) => tasks.push(task),
            }
        }
        tasks.extend(std::mem::take(&mut self.retries).into_values());
        for task in tasks {
            self.waiting -= task.row_count();
            self.in_flight += task.row_count();
            self.forget_task(task);
        }
    }

    /// A failure ends the run: nothing begins any more.
    pub fn fail(&mut self) {
        self.has_failed = true;
        self.drop_all();
    }

    /// Ends the run: handlers that still run are waited for no longer, and what they finish does not count. Returns the
    /// partitions of parts that are given up for this, one for each part.
    pub fn end(&mut self) -> Vec<TopicPartition> {
        self.has_ended = true;
        self.drop_all();
        (0..self.partitions.len()).flat_map(|index| self.abandon_at(index)).collect()
    }

    /// Gives up the unfinished rows of a partition, although their handlers may still run. Returns the number of parts.
    pub fn abandon(&mut self, partition: &TopicPartition) -> usize {
        self.indices.get(partition).copied().map_or(0, |index| self.abandon_at(index).len())
    }

    /// The progress since the last call. In a run with transactions, [`settled_rounds`](Self::settled_rounds) has it.
    pub fn reports(&mut self) -> Vec<Report<P>> {
        let mut reports = std::mem::take(&mut self.settled);
        for partition in &self.partitions {
            if let Some(part) = partition.unsettled.front().and_then(|id| self.parts.get_mut(*id))
                && part.frontier() > part.reported
            {
                part.reported = part.frontier();
                reports.push(report(part, part.frontier(), false));
            }
        }
        reports
    }

    /// Takes the payloads of parts that are over, to be dropped.
    pub fn take_removed(&mut self) -> Vec<P> {
        std::mem::take(&mut self.removed)
    }

    /// Number of parts that are not over.
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// True if a handler has rows of a part.
    pub(super) fn is_in_flight(&self, id: Id) -> bool {
        self.running.iter().flatten().any(|running| running.task.part == id)
    }

    pub(super) fn remove_if_over(&mut self, id: Id) {
        if self.parts.get(id).is_some_and(|part| part.is_over && !part.is_queued && part.open_rows == 0)
            && let Some(part) = self.parts.remove(id)
        {
            self.removed.push(part.payload);
        }
    }

    fn index_of(&mut self, partition: &TopicPartition) -> usize {
        if let Some(&index) = self.indices.get(partition) {
            return index;
        }
        let index = self.partitions.len();
        let unordered = self.lanes.add_shared(index);
        self.partitions.push(Partition::new(partition.clone(), unordered));
        self.indices.insert(partition.clone(), index);
        index
    }

    fn next_task(&mut self, now: Now) -> Option<Task> {
        while let Some(retry) = self.retries.first_entry().filter(|retry| retry.key().0 <= now) {
            self.ready.push_back(Ready::Task(retry.remove()));
        }
        while let Some(ready) = self.ready.pop_front() {
            let task = match ready {
                Ready::Task(task) => Some(task),
                Ready::Lane(id) => self.task_of(id),
            };
            if let Some(task) = task {
                self.waiting -= task.row_count();
                self.in_flight += task.row_count();
                return Some(task);
            }
        }
        None
    }

    fn task_of(&mut self, id: Id) -> Option<Task> {
        let lane = self.lanes.get_mut(id)?;
        let Some(Item { part, row: first }) = lane.items.pop_front() else {
            if lane.is_shared {
                lane.is_offered = false;
            } else {
                self.lanes.remove(id);
            }
            return None;
        };
        let mut more = Vec::new();
        // Rows of one part, since each assignment of a partition has its own.
        while more.len() + 1 < self.limits.task_rows
            && let Some(item) = lane.items.pop_front_if(|item| item.part == part)
        {
            more.push(item.row);
        }
        if lane.is_shared {
            lane.is_offered = !lane.items.is_empty();
            if lane.is_offered {
                self.ready.push_back(Ready::Lane(id));
            }
        }
        let task = Task { lane: id, part, first, more, attempts: 0, is_last_attempt: false };
        if let Some(part) = self.parts.get(part) {
            let begun = &mut self.partitions[part.partition].begun;
            *begun = (*begun).max(part.base + task.last_row() as u64 + 1);
        }
        Some(task)
    }

    fn ended(&mut self, worker: usize) -> Option<Task> {
        Some(self.running.get_mut(worker)?.take()?.task)
    }

    fn again(&mut self, task: Task, at: Now) {
        self.in_flight -= task.row_count();
        self.waiting += task.row_count();
        self.retry_count += 1;
        self.retries.insert((at, self.retry_count), task);
    }

    fn forget_task(&mut self, task: Task) {
        for row in task.rows() {
            self.give_up(task.part, row);
        }
        self.release_lane(&task);
    }

    fn leave_out(&mut self, task: Task) {
        if let Some(lane) = self.lanes.get_mut(task.lane).filter(|lane| !lane.is_shared) {
            let items = std::mem::take(&mut lane.items);
            self.give_up_items(items);
        }
        self.forget_task(task);
    }

    /// The task of a lane is over: the next one may begin.
    fn release_lane(&mut self, task: &Task) {
        self.in_flight -= task.row_count();
        let Some(lane) = self.lanes.get(task.lane).filter(|lane| !lane.is_shared) else { return };
        if lane.items.is_empty() {
            self.lanes.remove(task.lane);
        } else {
            self.ready.push_back(Ready::Lane(task.lane));
        }
    }

    fn freeze_at(&mut self, index: usize) {
        if !self.partitions[index].is_frozen {
            self.partitions[index].is_frozen = true;
            self.drop_after(index, self.partitions[index].begun);
        }
    }

    /// Gives up the rows of a partition that wait, except its first ones.
    fn drop_after(&mut self, index: usize, begun: u64) {
        for id in self.lanes.of_partition(index) {
            let Some(lane) = self.lanes.get_mut(id) else { continue };
            let parts = &self.parts;
            let has_begun =
                |item: &Item| parts.get(item.part).is_some_and(|part| part.base + u64::from(item.row) < begun);
            let (kept, dropped): (VecDeque<_>, VecDeque<_>) = lane.items.drain(..).partition(has_begun);
            lane.items = kept;
            self.give_up_items(dropped);
        }
    }

    fn give_up_items(&mut self, items: VecDeque<Item>) {
        self.waiting -= items.len();
        for Item { part, row } in items {
            self.give_up(part, row as usize);
        }
    }

    /// A row that waited, or was being handled, will not be finished.
    fn give_up(&mut self, id: Id, row: usize) {
        if let Some(part) = self.parts.get_mut(id) {
            part.open_rows -= 1;
            part.give_up(row);
            if part.is_settled() {
                self.settle(id);
            }
        }
    }

    fn abandon_at(&mut self, index: usize) -> Vec<TopicPartition> {
        let late: Vec<Id> = self.partitions[index].unsettled.iter().copied().collect();
        let is_unsettled = |id: &&Id| self.parts.get(**id).is_some_and(|part| !part.is_settled());
        let late: Vec<Id> = late.iter().filter(is_unsettled).copied().collect();
        for id in &late {
            if let Some(part) = self.parts.get_mut(*id) {
                part.give_up(part.frontier());
                self.settle(*id);
            }
        }
        late.iter().map(|_| self.partitions[index].name.clone()).collect()
    }

    /// No more rows of a part will count as finished. Parts are settled in order: finished rows of an incomplete part
    /// count only after all parts before it were reported.
    fn settle(&mut self, id: Id) {
        let Some(part) = self.parts.get(id) else { return };
        let index = part.partition;
        if part.is_complete()
            && let Some(at) = self.partitions[index].unsettled.iter().position(|unsettled| *unsettled == id)
        {
            self.partitions[index].unsettled.remove(at);
            self.settled(id);
        }
        while let Some(&first) = self.partitions[index].unsettled.front()
            && self.parts.get(first).is_none_or(Part::is_settled)
        {
            self.partitions[index].unsettled.pop_front();
            self.settled(first);
        }
        // Its last row may have been given up long after it was settled.
        self.remove_if_over(id);
    }

    fn settled(&mut self, id: Id) {
        let Some(part) = self.parts.get_mut(id) else { return };
        self.queued_bytes -= part.memory_bytes;
        part.is_queued = false;
        if !self.is_transactional {
            part.is_over = true;
            self.settled.push(report(part, part.frontier(), true));
        }
        self.remove_if_over(id);
    }
}

pub(super) fn report<P: Clone>(part: &Part<P>, rows: usize, is_last: bool) -> Report<P> {
    Report { payload: part.payload.clone(), rows, total: part.total(), is_last }
}
