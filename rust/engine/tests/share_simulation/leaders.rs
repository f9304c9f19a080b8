//! What the leaders of partitions know of a share group, offset by offset: a model of Kafka's, much smaller than the
//! embedded broker's, which runs beside that and says what it has to answer.

use std::collections::BTreeMap;

use monedula_engine::TopicPartition;
use monedula_engine::share::{AcknowledgeType, AcknowledgementBatch, Acquired};

use crate::network::{Link, Pid};

/// What a record is to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Available,
    /// A member has it until then, since then.
    Acquired {
        by: Pid,
        due_ms: i64,
        since_ms: i64,
    },
    Accepted,
    /// It is not delivered again: it was rejected, delivered too often, or is not there.
    Archived,
}

/// A record of one partition.
#[derive(Clone, Copy, Debug)]
struct Record {
    state: State,
    deliveries: i16,
    /// The deliveries that a new leader knows of: as in Kafka, nothing is stored when a record is acquired.
    stored: i16,
    /// Compaction has removed it and all that was in its batch: it is acquired with others, or archived unseen. Or it is not
    /// known whether an acknowledgement was applied.
    is_missing: bool,
}

/// A partition, as its leader knows it.
#[derive(Debug, Default)]
pub(crate) struct SharePartition {
    pub(crate) leader: Option<i32>,
    pub(crate) leader_epoch: i32,
    /// By offset.
    records: Vec<Record>,
}

/// A lock that ended before anything was said of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Expired,
    /// The session ended, or its connection.
    Session,
    Moved,
    /// A request of the session before, which the member had given up, came late: sessions are of a member, and as in Kafka
    /// any connection goes on with them, if it has the epoch that is due.
    GivenUp,
}

/// An offset that a member had, and when its lock had begun.
pub(crate) type Lost = (Pid, TopicPartition, i64, i64);

/// Who sends a request, to which node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) node: i32,
    pub(crate) pid: Pid,
    pub(crate) link: Link,
    /// The process has closed the connection, and waits for no answer.
    pub(crate) has_given_up: bool,
}

/// What the leader of a session has to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) is_refused: bool,
    /// Whether the acknowledgements of each partition are applied; `None` where a leader may do either.
    pub(crate) applied: BTreeMap<TopicPartition, Option<bool>>,
}

/// When an acknowledgement was applied, by which node, and what it said.
type Applied = (i64, i32, AcknowledgeType);

#[derive(Debug, Default)]
pub(crate) struct Leaders {
    limit: i16,
    lock_ms: i64,
    pub(crate) partitions: BTreeMap<TopicPartition, SharePartition>,
    /// The next epoch and the connection of each session.
    sessions: BTreeMap<(i32, Pid), (i32, Link)>,
    /// What was applied of each member's acknowledgements that has no outcome yet: when, and by which node.
    applied: BTreeMap<(Pid, TopicPartition, i64), Vec<Applied>>,
    /// How the last lock of each member on each offset ended before it said anything.
    pub(crate) losses: BTreeMap<(Pid, TopicPartition, i64), Loss>,
    /// Records that went to the dead letter topic.
    pub(crate) dead_letters: usize,
}

impl State {
    fn is_final(self) -> bool {
        matches!(self, Self::Accepted | Self::Archived)
    }
}

impl Record {
    fn is_available(&self) -> bool {
        self.state == State::Available
    }

    /// Makes it available again. Returns whether it was delivered too often for that.
    fn release(&mut self, limit: i16) -> bool {
        let is_dead = self.deliveries >= limit;
        self.state = if is_dead { State::Archived } else { State::Available };
        self.stored = self.deliveries;
        is_dead
    }
}

impl SharePartition {
    /// The first offset that is not done with; with `passes`, as far as if the leader knew what compaction has removed.
    fn start(&self, passes: bool) -> i64 {
        let is_done =
            |record: &&Record| record.state.is_final() || passes && record.is_missing && record.is_available();
        self.records.iter().take_while(is_done).count() as i64
    }

    fn record(&mut self, offset: i64) -> Option<&mut Record> {
        self.records.get_mut(usize::try_from(offset).ok()?)
    }
}

/// The offsets of batches, each with the number of its type.
pub(crate) fn offsets(batches: &[AcknowledgementBatch]) -> impl Iterator<Item = (i64, i8)> {
    batches.iter().flat_map(|batch| {
        let kind = |offset: i64| *batch.types.get((offset - batch.first) as usize).unwrap_or(&batch.types[0]);
        (batch.first..=batch.last).map(move |offset| (offset, kind(offset)))
    })
}

impl Leaders {
    /// Leaders without partitions, of a group with this limit of deliveries, and locks of this time.
    pub(crate) fn new(limit: i16, lock_ms: i64) -> Self {
        Self { limit, lock_ms, ..Self::default() }
    }

    pub(crate) fn append(&mut self, partition: &TopicPartition, records: usize) {
        let Some(known) = self.partitions.get_mut(partition) else { return };
        known.records.extend((0..records).map(|_| Record {
            state: State::Available,
            deliveries: 0,
            stored: 0,
            is_missing: false,
        }));
    }

    pub(crate) fn state(&self, partition: &TopicPartition, offset: i64) -> Option<State> {
        let record = self.partitions.get(partition)?.records.get(usize::try_from(offset).ok()?)?;
        Some(record.state)
    }

    /// The records of which `of` is true.
    pub(crate) fn count(&self, partition: &TopicPartition, of: impl Fn(State) -> bool) -> i64 {
        let known = self.partitions.get(partition);
        known.map_or(0, |known| known.records.iter().filter(|record| of(record.state)).count() as i64)
    }

    /// The records that are not done with.
    pub(crate) fn lag(&self, partition: &TopicPartition) -> i64 {
        let known = self.partitions.get(partition);
        let is_left = |record: &&Record| !(record.state.is_final() || record.is_missing && record.is_available());
        known.map_or(0, |known| known.records.iter().filter(is_left).count() as i64)
    }

    /// What members have, of which `of` is true.
    pub(crate) fn acquired(&self, of: impl Fn(Pid) -> bool) -> Vec<(Pid, TopicPartition, i64)> {
        let mut found = Vec::new();
        for (partition, known) in &self.partitions {
            for (offset, record) in known.records.iter().enumerate() {
                if let State::Acquired { by, .. } = record.state
                    && of(by)
                {
                    found.push((by, partition.clone(), offset as i64));
                }
            }
        }
        found
    }

    fn release_where(&mut self, loss: Loss, which: impl Fn(&SharePartition, Pid, i64) -> bool) -> Vec<Lost> {
        let mut lost = Vec::new();
        for (partition, known) in &mut self.partitions {
            for offset in 0..known.records.len() {
                let State::Acquired { by, due_ms, since_ms } = known.records[offset].state else { continue };
                if !which(known, by, due_ms) {
                    continue;
                }
                self.dead_letters += usize::from(known.records[offset].release(self.limit));
                self.losses.insert((by, partition.clone(), offset as i64), loss);
                lost.push((by, partition.clone(), offset as i64, since_ms));
            }
        }
        lost
    }

    /// Everything that members have is available again.
    pub(crate) fn release_all(&mut self, loss: Loss) {
        self.release_where(loss, |_, _, _| true);
    }

    /// Locks end. Returns the offsets.
    pub(crate) fn expire(&mut self, now_ms: i64) -> Vec<Lost> {
        self.release_where(Loss::Expired, |_, _, due_ms| due_ms <= now_ms)
    }

    fn release_session(&mut self, node: i32, pid: Pid) {
        self.release_where(Loss::Session, |known, by, _| known.leader == Some(node) && by == pid);
    }

    /// A connection ended, and with it its sessions.
    pub(crate) fn disconnected(&mut self, link: Link) {
        let ended: Vec<(i32, Pid)> =
            self.sessions.iter().filter(|(_, (_, of))| *of == link).map(|(key, _)| *key).collect();
        for (node, pid) in ended {
            self.sessions.remove(&(node, pid));
            self.release_session(node, pid);
        }
    }

    /// A partition has this leader, with this epoch. Returns whether it is another than before.
    pub(crate) fn lead(&mut self, partition: &TopicPartition, leader: Option<i32>, leader_epoch: i32) -> bool {
        let known = self.partitions.entry(partition.clone()).or_default();
        let is_first = known.leader.is_none() && known.leader_epoch == 0;
        if (known.leader, known.leader_epoch) == (leader, leader_epoch) {
            return false;
        }
        (known.leader, known.leader_epoch) = (leader, leader_epoch);
        for (offset, record) in known.records.iter_mut().enumerate() {
            if let State::Acquired { by, .. } = record.state {
                (record.state, record.deliveries) = (State::Available, record.stored);
                self.losses.insert((by, partition.clone(), offset as i64), Loss::Moved);
            }
        }
        !is_first
    }

    /// A request of a session arrives: what its leader has to answer. `forgotten` and the partitions without
    /// acknowledgements do not matter here.
    pub(crate) fn request(
        &mut self,
        sender: Sender,
        epoch: i32,
        is_fetch: bool,
        batches: &[(TopicPartition, Vec<AcknowledgementBatch>)],
        now_ms: i64,
    ) -> Expected {
        let Sender { node, pid, link, .. } = sender;
        let session = self.sessions.get(&(node, pid)).copied();
        let is_refused = match (epoch, session) {
            (0, _) => !is_fetch || batches.iter().any(|(_, batches)| !batches.is_empty()),
            (_, None) => true,
            (-1, Some(_)) => false,
            (_, Some((next, _))) => next != epoch,
        };
        let mut expected = Expected { is_refused, applied: BTreeMap::new() };
        if is_refused {
            return expected;
        }
        for (partition, batches) in batches.iter().filter(|(_, batches)| !batches.is_empty()) {
            let applied = self.acknowledge(sender, partition, batches, now_ms);
            expected.applied.insert(partition.clone(), applied);
        }
        match epoch {
            -1 => {
                self.sessions.remove(&(node, pid));
                self.release_session(node, pid);
            }
            0 => _ = self.sessions.insert((node, pid), (1, link)),
            _ => _ = self.sessions.insert((node, pid), (epoch + 1, session.map_or(link, |(_, link)| link))),
        }
        expected
    }

    /// Applies acknowledgements of one partition, all or none. Returns whether they were; `None` if a leader may do either.
    fn acknowledge(
        &mut self,
        sender: Sender,
        partition: &TopicPartition,
        batches: &[AcknowledgementBatch],
        now_ms: i64,
    ) -> Option<bool> {
        let Sender { node, pid, .. } = sender;
        let known = self.partitions.get(partition).filter(|known| known.leader == Some(node));
        let Some(known) = known else { return Some(false) };
        let (start, latest_start) = (known.start(false), known.start(true));
        let of = |(offset, _): (i64, i8)| known.records.get(offset as usize);
        let current: Vec<&Record> = offsets(batches).filter(|(offset, _)| *offset >= start).filter_map(of).collect();
        let is_his = |record: &Record| matches!(record.state, State::Acquired { by, .. } if by == pid);
        // A leader finds out late what compaction has removed, and passes over what lies before its start offset.
        let is_passed = offsets(batches).any(|(offset, _)| (start..latest_start).contains(&offset));
        let is_removed = offsets(batches).filter_map(of).any(|record| record.is_missing && !is_his(record));
        // Nor does it pass over anything before it has read its state back.
        if current.is_empty() || is_passed || is_removed {
            // If the answer is lost, nobody learns which.
            if let Some(known) = self.partitions.get_mut(partition) {
                for (offset, _) in offsets(batches) {
                    known.record(offset).into_iter().for_each(|record| record.is_missing = true);
                }
            }
            return None;
        }
        if !current.into_iter().all(is_his) {
            return Some(false);
        }
        self.apply(sender, partition, batches, now_ms);
        Some(true)
    }

    /// Applies acknowledgements to those of the records that the member has.
    pub(crate) fn apply(
        &mut self,
        Sender { node, pid, has_given_up, .. }: Sender,
        partition: &TopicPartition,
        batches: &[AcknowledgementBatch],
        now_ms: i64,
    ) {
        let (limit, lock_ms) = (self.limit, self.lock_ms);
        let Some(known) = self.partitions.get_mut(partition) else { return };
        for (offset, kind) in offsets(batches) {
            let kind = AcknowledgeType::ALL[kind as usize];
            let row = (pid, partition.clone(), offset);
            if !has_given_up {
                self.applied.entry(row.clone()).or_default().push((now_ms, node, kind));
            }
            let Some(record) = known.record(offset) else { continue };
            let State::Acquired { by, due_ms, .. } = &mut record.state else { continue };
            if *by != pid {
                continue;
            }
            if has_given_up && kind != AcknowledgeType::Renew {
                self.losses.insert(row, Loss::GivenUp);
            }
            match kind {
                AcknowledgeType::Renew => *due_ms = now_ms + lock_ms,
                AcknowledgeType::Release => self.dead_letters += usize::from(record.release(limit)),
                AcknowledgeType::Accept => record.state = State::Accepted,
                AcknowledgeType::Gap => record.state = State::Archived,
                AcknowledgeType::Reject => {
                    record.state = State::Archived;
                    self.dead_letters += 1;
                }
            }
        }
    }

    /// Compaction has left these batches of a partition, by their first and last offsets.
    pub(crate) fn compacted(&mut self, partition: &TopicPartition, batches: &[(i64, i64)]) {
        let Some(known) = self.partitions.get_mut(partition) else { return };
        for (offset, record) in known.records.iter_mut().enumerate() {
            record.is_missing = !batches.iter().any(|(first, last)| (*first..=*last).contains(&(offset as i64)));
        }
    }

    /// Whether such an acknowledgement was applied by a node since then, and has no outcome yet. Now it has.
    pub(crate) fn take_applied(
        &mut self,
        pid: Pid,
        (partition, offset): (&TopicPartition, i64),
        (node, kind): (i32, AcknowledgeType),
        since_ms: i64,
    ) -> bool {
        let Some(of) = self.applied.get_mut(&(pid, partition.clone(), offset)) else { return false };
        let place = of.iter().position(|(at_ms, by, applied)| *at_ms >= since_ms && (*by, *applied) == (node, kind));
        place.map(|place| of.remove(place)).is_some()
    }

    /// An answer gives a member these records.
    ///
    /// # Errors
    /// What is wrong with it: a record that is not available, or another delivery count than Kafka's.
    pub(crate) fn acquire(
        &mut self,
        pid: Pid,
        partition: &TopicPartition,
        acquired: &[Acquired],
        now_ms: i64,
    ) -> Result<(), String> {
        let due_ms = now_ms + self.lock_ms;
        let Some(known) = self.partitions.get_mut(partition) else { return Err(format!("{partition} is unknown")) };
        let records = acquired.iter().map(|range| range.last - range.first + 1).sum::<i64>();
        for range in acquired {
            for offset in range.first..=range.last {
                let record = known.record(offset).ok_or_else(|| format!("{partition} has no offset {offset}"))?;
                if record.is_missing {
                    // Only the leader knows what has become of it.
                    (record.state, record.deliveries) = (State::Available, range.delivery_count - 1);
                }
                if !record.is_available() {
                    return Err(format!("{offset} of {partition} is {:?}", record.state));
                }
                record.deliveries += 1;
                if record.deliveries != range.delivery_count {
                    let (count, told) = (record.deliveries, range.delivery_count);
                    return Err(format!("{offset} of {partition} is delivered {count} times, and {told} are told"));
                }
                // A record that may have spoilt those beside it is delivered alone the last time (KAFKA-17541).
                if record.deliveries == self.limit && self.limit > 2 && records > 1 {
                    return Err(format!("{offset} of {partition} is delivered the last time, and not alone"));
                }
                record.state = State::Acquired { by: pid, due_ms, since_ms: now_ms };
                self.losses.remove(&(pid, partition.clone(), offset));
            }
        }
        Ok(())
    }
}
