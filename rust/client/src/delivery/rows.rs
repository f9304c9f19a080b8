//! Batches whose rows are handed out one by one: a row is finished when the one after it is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use monedula_columns::ColumnBatch;
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::ledger::{BatchId, Holder, Ledger, Place};

use super::{Delivery, State};
use crate::driver::Command;

/// Holds batches that are finished row by row, so that asking for another batch does not finish them as a whole.
const ROW_BY_ROW: Holder = Holder::MAX;

/// How far the rows of a batch are taken.
pub(super) struct RowsTaken {
    pub(super) holder: Holder,
    /// How many were asked for; more than there are once the batch is used up.
    taken: Arc<AtomicUsize>,
    batch: ColumnBatch,
}

impl RowsTaken {
    pub(super) fn is_used_up(&self) -> bool {
        self.taken.load(Ordering::Acquire) > self.batch.record_batch.num_rows()
    }

    /// Tells the ledger of the rows that are finished: without `all`, the one in the user's hands is not.
    pub(super) fn finish(&self, id: BatchId, ledger: &mut Ledger, all: bool) {
        let taken = self.taken.load(Ordering::Acquire);
        let finished = if all { taken } else { taken.saturating_sub(1) };
        for (span, offset, leader_epoch) in self.batch.after(finished) {
            let partition = TopicPartition::new(span.topic.clone(), span.partition);
            ledger.finish_up_to(id, &partition, Place { offset, leader_epoch });
        }
    }
}

impl Delivery {
    /// The batch's rows are handed out one by one; whoever does counts them in what is returned.
    pub(crate) fn by_rows(&self, id: BatchId, holder: Holder, batch: &ColumnBatch) -> Arc<AtomicUsize> {
        let taken = Arc::new(AtomicUsize::new(0));
        let account = &mut self.state().account;
        if let Some(ledger) = &mut account.ledger {
            ledger.pass_on(id, ROW_BY_ROW);
            account.rows.insert(id, RowsTaken { holder, taken: taken.clone(), batch: batch.clone() });
        }
        taken
    }

    /// Whether more rows of a batch with these places may be handed out.
    pub(crate) fn may_go_on(&self, places: &[(TopicPartition, u64, Place)]) -> bool {
        let state = self.state();
        let stays =
            |partition, span| state.lanes.get(partition).is_some_and(|lane| lane.span == span && !lane.settling);
        // Without places there is no group, and nobody to take anything away.
        places.is_empty()
            || (!state.gates.keep_back(Instant::now()) && places.iter().all(|(named, span, _)| stays(named, *span)))
    }

    /// Rows of a batch beyond the first `taken` will be handed out again, except where the partition was moved, or went on,
    /// since. What was taken stays in the holder's hands.
    pub(crate) fn give_back(
        &self,
        id: BatchId,
        holder: Holder,
        batch: &ColumnBatch,
        places: &[(TopicPartition, u64, Place)],
        taken: usize,
    ) {
        let _turn = self.turn();
        let mut state = self.state();
        let State { account, .. } = &mut *state;
        if let Some(ledger) = &mut account.ledger {
            // The rows before the last one taken are finished, whatever becomes of that one.
            if let Some(rows) = account.rows.remove(&id) {
                rows.finish(id, ledger, false);
            }
            ledger.pass_on(id, holder);
        }
        let taken_to: BTreeMap<TopicPartition, (i64, i32)> = batch
            .after(taken)
            .map(|(span, offset, epoch)| (TopicPartition::new(span.topic.clone(), span.partition), (offset, epoch)))
            .collect();
        for (partition, next) in ends(batch) {
            let first =
                batch.spans.iter().find(|span| span.topic == partition.topic && span.partition == partition.partition);
            let begin = first.map_or(next, |span| span.first_offset);
            let (offset, leader_epoch) = taken_to.get(&partition).copied().unwrap_or((begin, -1));
            let current = |state: &State| {
                let lane = state.lanes.get(&partition)?;
                let same = places.iter().all(|(named, span, _)| *named != partition || *span == lane.span);
                (same && lane.position == Some(next)).then_some(())
            };
            if offset >= next || current(&state).is_none() {
                continue;
            }
            state.forget_queued(&partition);
            let span = state.new_span();
            let State { lanes, account, .. } = &mut *state;
            let Some(lane) = lanes.get_mut(&partition) else { continue };
            lane.restart(span);
            lane.target = Some(offset);
            if let Some(ledger) = &mut account.ledger {
                ledger.give_back(id, &partition, span, Place { offset, leader_epoch });
            }
            self.command(Command::Seek { partition, span, start: Start::Offset(offset, leader_epoch) });
        }
    }
}

/// The partitions of a batch, with where each goes on after it.
fn ends(batch: &ColumnBatch) -> BTreeMap<TopicPartition, i64> {
    let end =
        |span: &monedula_columns::Span| (TopicPartition::new(span.topic.clone(), span.partition), span.next_offset);
    batch.spans.iter().map(end).collect()
}
