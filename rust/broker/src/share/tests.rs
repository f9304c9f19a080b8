//! Share partitions in virtual time: what a record goes through, and random walks against a model that knows each
//! offset by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::acknowledgement::{AcknowledgeType, Acknowledgement};
use super::acquisition::{Acquired, Acquisition};
use super::dead_letter::{DeadLetter, DeadLetterCause};
use super::limits::ShareLimits;
use super::partition::SharePartition;
use super::state_batch::StateBatch;
use crate::draw::Draw;

const LIMITS: ShareLimits = ShareLimits { lock_ms: 30_000, delivery_count: 5, record_locks: 2000, renewals: true };

fn wanted(member: &str, max_records: i64) -> Acquisition {
    Acquisition { member: member.into(), max_records, batch_size: max_records, record_limit: false }
}

fn strictly(member: &str, max_records: i64) -> Acquisition {
    Acquisition { record_limit: true, ..wanted(member, max_records) }
}

/// Batches of ten records each, from an offset on.
fn tens(from: i64, end: i64) -> Vec<(i64, i64)> {
    (from / 10..end / 10).map(|index| (index * 10, index * 10 + 9)).collect()
}

fn ranges(acquired: &[Acquired]) -> Vec<(i64, i64, i16)> {
    acquired.iter().map(|one| (one.first, one.last, one.delivery_count)).collect()
}

fn acknowledge(
    partition: &mut SharePartition,
    member: &str,
    batches: &[(i64, i64, &[i8])],
    now_ms: i64,
) -> Result<Vec<DeadLetter>, ErrorCode> {
    let parsed = Acknowledgement::parse(batches.iter().copied(), true)?;
    partition.acknowledge(member, &parsed, LIMITS, now_ms).map_err(|error| error.code)
}

#[test]
fn a_soft_limit_ends_with_a_batch_and_ranges_begin_with_one() {
    let mut partition = SharePartition::new(0);
    let acquired = partition.acquire(&wanted("a", 15), &tens(0, 40), LIMITS, 0);
    assert_eq!(ranges(&acquired), [(0, 19, 1)]);
    let small = Acquisition { batch_size: 7, ..wanted("b", 100) };
    let acquired = partition.acquire(&small, &tens(20, 50), LIMITS, 0);
    assert_eq!(ranges(&acquired), [(20, 29, 1), (30, 39, 1), (40, 49, 1)]);
    assert_eq!(partition.fetch_offset(), 50);
    let none = Acquisition { batch_size: -1, ..wanted("b", 100) };
    assert_eq!(ranges(&partition.acquire(&none, &tens(50, 70), LIMITS, 0)), [(50, 59, 1), (60, 69, 1)]);
}

#[test]
fn a_record_limit_is_strict_and_leaves_the_rest_of_the_batch() {
    let mut partition = SharePartition::new(0);
    assert_eq!(ranges(&partition.acquire(&strictly("a", 4), &tens(0, 20), LIMITS, 0)), [(0, 3, 1)]);
    assert_eq!(partition.fetch_offset(), 4);
    assert_eq!(ranges(&partition.acquire(&strictly("b", 4), &tens(0, 20), LIMITS, 0)), [(4, 7, 1)]);
    assert_eq!(ranges(&partition.acquire(&strictly("b", 4), &tens(0, 20), LIMITS, 0)), [(8, 9, 1), (10, 11, 1)]);
}

#[test]
fn a_batch_that_begins_before_the_start_offset_is_acquired_from_there() {
    let mut partition = SharePartition::new(5);
    assert_eq!(ranges(&partition.acquire(&wanted("a", 1), &tens(0, 20), LIMITS, 0)), [(5, 9, 1)]);
}

#[test]
fn what_is_accepted_moves_the_start_offset_as_far_as_nothing_is_open() {
    let mut partition = SharePartition::new(0);
    partition.acquire(&wanted("a", 10), &tens(0, 10), LIMITS, 0);
    assert_eq!(acknowledge(&mut partition, "a", &[(3, 9, &[1])], 0), Ok(vec![]));
    assert_eq!((partition.start_offset(), partition.delivery_complete_count()), (0, 7));
    assert_eq!(acknowledge(&mut partition, "a", &[(0, 2, &[1, 2, 0])], 0), Ok(vec![]));
    assert_eq!((partition.start_offset(), partition.fetch_offset()), (1, 1));
    assert_eq!(ranges(&partition.acquire(&wanted("b", 10), &tens(0, 10), LIMITS, 0)), [(1, 1, 2)]);
    assert_eq!(acknowledge(&mut partition, "b", &[(1, 1, &[1])], 0), Ok(vec![]));
    assert_eq!((partition.start_offset(), partition.state_batches()), (10, vec![]));
}

#[test]
fn acknowledgements_apply_all_together_or_not_at_all() {
    let mut partition = SharePartition::new(0);
    partition.acquire(&wanted("a", 10), &tens(0, 10), LIMITS, 0);
    partition.acquire(&wanted("b", 10), &tens(10, 20), LIMITS, 0);
    let before = partition.clone();
    let refused = [
        (&[(0i64, 9i64, &[1i8][..]), (10, 19, &[1])][..], ErrorCode::InvalidRecordState),
        (&[(0, 9, &[1]), (10, 20, &[1])], ErrorCode::InvalidRequest),
        (&[(5, 4, &[1])], ErrorCode::InvalidRequest),
        (&[(0, 4, &[1]), (4, 9, &[1])], ErrorCode::InvalidRecordState),
        (&[(0, 4, &[1]), (3, 9, &[1])], ErrorCode::InvalidRequest),
        (&[(0, 9, &[])], ErrorCode::InvalidRequest),
        (&[(0, 9, &[1, 1])], ErrorCode::InvalidRequest),
        (&[(0, 9, &[5])], ErrorCode::InvalidRequest),
        (&[(i64::MIN, i64::MAX, &[1, 1])], ErrorCode::InvalidRequest),
        (&[(0, i64::MAX, &[1])], ErrorCode::InvalidRequest),
    ];
    for (batches, error) in refused {
        assert_eq!(acknowledge(&mut partition, "a", batches, 0), Err(error), "{batches:?}");
        assert_eq!(partition, before, "{batches:?}");
    }
    assert_eq!(acknowledge(&mut partition, "a", &[(0, 9, &[1])], 0), Ok(vec![]));
    // A repeat of what is done with already, below the start offset, is no error.
    assert_eq!(acknowledge(&mut partition, "a", &[(0, 9, &[2])], 0), Ok(vec![]));
    assert_eq!(acknowledge(&mut partition, "b", &[(5, 19, &[1])], 0), Ok(vec![]));
    assert_eq!(partition.start_offset(), 20);
}

#[test]
fn a_renewal_has_to_be_announced_and_allowed() {
    let renew = [(0i64, 9i64, &[4i8][..])];
    let error = Acknowledgement::parse(renew.into_iter(), false).unwrap_err();
    assert_eq!(error, ErrorCode::InvalidRequest);
    let mut partition = SharePartition::new(0);
    partition.acquire(&wanted("a", 10), &tens(0, 10), LIMITS, 0);
    let parsed = Acknowledgement::parse(renew.into_iter(), true).unwrap();
    let without = ShareLimits { renewals: false, ..LIMITS };
    let error = partition.acknowledge("a", &parsed, without, 0).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRecordState);
    partition.acknowledge("a", &parsed, LIMITS, 20_000).unwrap();
    assert_eq!((partition.expire(LIMITS, 30_000), partition.next_due_ms()), (vec![], Some(50_000)));
    assert!(partition.is_held_by("a"));
}

#[test]
fn a_lock_that_is_over_makes_the_record_available_again() {
    let mut partition = SharePartition::new(0);
    partition.acquire(&wanted("a", 10), &tens(0, 10), LIMITS, 1000);
    assert_eq!(partition.next_due_ms(), Some(31_000));
    assert!(partition.expire(LIMITS, 30_999).is_empty() && partition.is_held_by("a"));
    assert!(partition.expire(LIMITS, 31_000).is_empty() && !partition.is_held_by("a"));
    assert_eq!(acknowledge(&mut partition, "a", &[(0, 9, &[1])], 31_000), Err(ErrorCode::InvalidRecordState));
    assert_eq!(ranges(&partition.acquire(&wanted("b", 10), &tens(0, 10), LIMITS, 31_000)), [(0, 9, 2)]);
}

#[test]
fn fewer_are_delivered_at_once_as_the_limit_comes_near_and_the_last_time_each_alone() {
    let mut partition = SharePartition::new(0);
    for deliveries in 1..=3 {
        let acquired = partition.acquire(&wanted("a", 100), &tens(0, 20), LIMITS, 0);
        assert_eq!(ranges(&acquired), [(0, 19, deliveries)]);
        assert_eq!(partition.release("a", LIMITS), []);
    }
    assert_eq!(ranges(&partition.acquire(&wanted("a", 100), &tens(0, 20), LIMITS, 0)), [(0, 9, 4)]);
    assert_eq!(ranges(&partition.acquire(&wanted("b", 100), &tens(10, 40), LIMITS, 0)), [(10, 19, 4)]);
    assert_eq!(ranges(&partition.acquire(&wanted("c", 100), &tens(20, 40), LIMITS, 0)), [(20, 39, 1)]);
    partition.release("a", LIMITS);
    assert_eq!(ranges(&partition.acquire(&wanted("a", 100), &tens(0, 40), LIMITS, 0)), [(0, 0, 5)]);
    assert_eq!(ranges(&partition.acquire(&wanted("a", 100), &tens(0, 40), LIMITS, 0)), [(1, 1, 5)]);
    let letter = |offset, cause| DeadLetter { first: offset, last: offset, delivery_count: 5, cause };
    assert_eq!(acknowledge(&mut partition, "a", &[(0, 0, &[3])], 0), Ok(vec![letter(0, DeadLetterCause::Rejected)]));
    assert_eq!(partition.release("a", LIMITS), [letter(1, DeadLetterCause::DeliveredTooOften)]);
    assert_eq!(partition.start_offset(), 2);
}

#[test]
fn nothing_new_is_acquired_at_the_limit_of_locks_but_what_was_released_is() {
    let limits = ShareLimits { record_locks: 20, ..LIMITS };
    let mut partition = SharePartition::new(0);
    partition.acquire(&wanted("a", 100), &tens(0, 40), limits, 0);
    assert_eq!(partition.fetch_offset(), 20);
    assert!(!partition.may_acquire(limits));
    assert_eq!(partition.acquire(&wanted("a", 100), &tens(20, 40), limits, 0), []);
    acknowledge(&mut partition, "a", &[(5, 6, &[2])], 0).unwrap();
    assert!(partition.may_acquire(limits));
    assert_eq!(ranges(&partition.acquire(&wanted("b", 100), &tens(0, 40), limits, 0)), [(5, 6, 2)]);
    acknowledge(&mut partition, "a", &[(0, 4, &[1])], 0).unwrap();
    assert_eq!(ranges(&partition.acquire(&strictly("b", 100), &tens(20, 40), limits, 0)), [(20, 24, 1)]);
}

#[test]
fn offsets_that_the_log_lost_are_archived() {
    let mut partition = SharePartition::new(0);
    partition.acquire(&wanted("a", 10), &tens(0, 10), LIMITS, 0);
    partition.release("a", LIMITS);
    // Compaction has removed the first batches: what is read begins with 30.
    assert_eq!(ranges(&partition.acquire(&wanted("a", 10), &tens(30, 40), LIMITS, 0)), [(30, 39, 1)]);
    assert_eq!(partition.start_offset(), 30);
    partition.log_starts_at(35);
    assert_eq!(partition.start_offset(), 35);
    assert_eq!(acknowledge(&mut partition, "a", &[(30, 39, &[1])], 0), Ok(vec![]));
    assert_eq!((partition.start_offset(), partition.fetch_offset()), (40, 40));
    partition.log_starts_at(50);
    assert_eq!((partition.start_offset(), partition.fetch_offset()), (50, 50));
}

#[test]
fn a_new_leader_knows_what_was_stored_and_delivers_the_rest_again() {
    let mut partition = SharePartition::new(0);
    partition.acquire(&wanted("a", 30), &tens(0, 30), LIMITS, 0);
    acknowledge(&mut partition, "a", &[(5, 6, &[1]), (7, 8, &[2]), (20, 20, &[3])], 0).unwrap();
    let state = |first, last, state, delivery_count| StateBatch { first, last, state, delivery_count };
    assert_eq!(partition.state_batches(), [state(5, 6, 2, 1), state(7, 8, 0, 1), state(20, 20, 4, 1)]);
    let mut again = SharePartition::restored(partition.start_offset(), &partition.state_batches());
    assert_eq!((again.start_offset(), again.fetch_offset(), again.delivery_complete_count()), (0, 0, 3));
    let acquired = again.acquire(&wanted("b", 100), &tens(0, 30), LIMITS, 0);
    assert_eq!(ranges(&acquired), [(0, 4, 1), (7, 8, 2), (9, 19, 1), (21, 29, 1)]);
}

#[test]
fn aborted_records_are_archived_as_they_are_acquired() {
    let mut partition = SharePartition::new(0);
    let acquired = partition.acquire(&wanted("a", 30), &tens(0, 30), LIMITS, 0);
    let acquired = partition.leave_out(acquired, &[(0, 4), (10, 12), (28, 40)]);
    assert_eq!(ranges(&acquired), [(5, 9, 1), (13, 27, 1)]);
    assert_eq!((partition.start_offset(), partition.delivery_complete_count()), (5, 5));
    assert_eq!(acknowledge(&mut partition, "a", &[(5, 9, &[1]), (13, 27, &[1])], 0), Ok(vec![]));
    assert_eq!(partition.start_offset(), 30);
}

/// Who holds an offset, and until when.
type Holder = Option<(Arc<str>, i64)>;

/// The state of each offset by itself: holder, if it has one, and delivery count.
#[derive(Default, Debug)]
struct Model {
    open: BTreeMap<i64, (Holder, i16)>,
    end: i64,
}

impl Model {
    fn acquire(&mut self, member: &str, acquired: &[Acquired], due_ms: i64) {
        for one in acquired {
            for offset in one.first..=one.last {
                for fresh in self.end..=offset {
                    self.open.insert(fresh, (None, 0));
                }
                self.end = self.end.max(offset + 1);
                let (holder, count) = self.open.get_mut(&offset).unwrap();
                assert_eq!(*holder, None, "offset {offset} has two holders");
                (*holder, *count) = (Some((member.into(), due_ms)), *count + 1);
                assert_eq!(*count, one.delivery_count, "offset {offset}");
            }
        }
    }

    /// Releases what `which` says.
    fn release(&mut self, limits: ShareLimits, which: impl Fn(&str, i64) -> bool) {
        self.open.retain(|_, (holder, count)| {
            let released = holder.as_ref().is_some_and(|(member, due_ms)| which(member, *due_ms));
            if released {
                *holder = None;
            }
            !released || *count < limits.delivery_count
        });
    }

    /// Applies acknowledgements if all are allowed.
    fn acknowledge(&mut self, member: &str, all: &[Acknowledgement], limits: ShareLimits, now_ms: i64) -> bool {
        let start = self.open.keys().next().copied().unwrap_or(self.end);
        let offsets = all.iter().flat_map(|one| (one.first..=one.last).map(move |offset| (offset, one.kind)));
        let offsets: Vec<_> = offsets.filter(|(offset, _)| *offset >= start).collect();
        let held = |offset| matches!(self.open.get(offset), Some((Some((by, _)), _)) if **by == *member);
        if !offsets.iter().all(|(offset, _)| held(offset)) {
            return false;
        }
        for (offset, kind) in offsets {
            let (holder, count) = self.open.get_mut(&offset).unwrap();
            match kind {
                AcknowledgeType::Renew => *holder = Some((member.into(), now_ms + limits.lock_ms)),
                AcknowledgeType::Release if *count < limits.delivery_count => *holder = None,
                _ => _ = self.open.remove(&offset),
            }
        }
        true
    }
}

/// One random walk: two members and a log of batches, against the model.
fn walk(seed: u64) {
    let mut draw = Draw::new(seed);
    let mut pick = move |below: u64| (draw.next() % below) as i64;
    let limits = ShareLimits {
        lock_ms: 20 + pick(50),
        delivery_count: 2 + pick(4) as i16,
        record_locks: 10 + pick(60),
        renewals: true,
    };
    let mut batches: Vec<(i64, i64)> = Vec::new();
    let (mut partition, mut model, mut now_ms) = (SharePartition::new(0), Model::default(), 0);
    for _ in 0..300 {
        now_ms += pick(8);
        let member = ["a", "b"][pick(2) as usize];
        match pick(8) {
            0 | 1 => {
                let base = batches.last().map_or(0, |(_, last)| last + 1);
                batches.push((base, base + pick(12)));
            }
            2..=4 => {
                let fetch_offset = partition.fetch_offset();
                let read: Vec<_> = batches.iter().copied().filter(|(_, last)| *last >= fetch_offset).take(4).collect();
                let max_records = 1 + pick(20);
                let record_limit = pick(2) == 0;
                let wanted = Acquisition { member: member.into(), max_records, batch_size: 1 + pick(20), record_limit };
                let may = partition.may_acquire(limits) && !read.is_empty();
                let acquired = partition.acquire(&wanted, &read, limits, now_ms);
                assert_eq!(acquired.is_empty(), !may, "seed {seed}: {partition:?}");
                let count: i64 = acquired.iter().map(Acquired::count).sum();
                assert!(!record_limit || count <= max_records, "seed {seed}: {acquired:?}");
                model.acquire(member, &acquired, now_ms + limits.lock_ms);
                if let Some(behind) = read.iter().find(|(base, last)| (*base..*last).contains(&(model.end - 1))) {
                    // The rest of a batch is in flight with its first record.
                    (model.end..=behind.1).for_each(|offset| _ = model.open.insert(offset, (None, 0)));
                    model.end = behind.1 + 1;
                }
            }
            5 => {
                let first = partition.start_offset() + pick(20);
                let kind = [
                    AcknowledgeType::Accept,
                    AcknowledgeType::Release,
                    AcknowledgeType::Reject,
                    AcknowledgeType::Gap,
                    AcknowledgeType::Renew,
                ][pick(5) as usize];
                let all = [Acknowledgement { first, last: first + pick(6), kind }];
                let before = partition.clone();
                let applied = partition.acknowledge(member, &all, limits, now_ms).is_ok();
                assert_eq!(
                    applied,
                    model.acknowledge(member, &all, limits, now_ms),
                    "seed {seed}: {all:?}, {before:?}"
                );
                assert!(applied || partition == before, "seed {seed}");
            }
            6 => {
                partition.release(member, limits);
                model.release(limits, |by, _| by == member);
            }
            _ if pick(4) == 0 => {
                // A failover: what was acquired is as it was before.
                partition = SharePartition::restored(partition.start_offset(), &partition.state_batches());
                for (holder, count) in model.open.values_mut() {
                    *count -= i16::from(holder.take().is_some());
                }
                let known = partition.state_batches().last().map_or(partition.start_offset(), |batch| batch.last + 1);
                model.open.retain(|offset, _| *offset < known);
                model.end = known;
            }
            _ => {
                partition.expire(limits, now_ms);
                model.release(limits, |_, due_ms| due_ms <= now_ms);
            }
        }
        let open = model.open.keys().next().copied().unwrap_or(model.end);
        assert_eq!(partition.start_offset(), open, "seed {seed}: {partition:?}");
        let available =
            model.open.iter().find(|(_, (holder, _))| holder.is_none()).map_or(model.end, |(offset, _)| *offset);
        assert_eq!(partition.fetch_offset(), available, "seed {seed}: {partition:?}");
        let due_ms = model.open.values().filter_map(|(holder, _)| holder.as_ref().map(|(_, due_ms)| *due_ms)).min();
        assert_eq!(partition.next_due_ms(), due_ms, "seed {seed}: {partition:?}");
    }
}

#[test]
fn random_walks_agree_with_a_model_of_single_offsets() {
    (0..500).for_each(walk);
}
