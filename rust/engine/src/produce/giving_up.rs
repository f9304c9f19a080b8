//! Batches that come to nothing, and what that means for those behind them.

use monedula_protocol::error_code::ErrorCode;

use super::io::{Output, SendFault};
use super::machine::{ProduceMachine, Slot};
use super::numbers::Repair;
use super::queue::Phase;

impl ProduceMachine {
    /// Gives up what is past its delivery timeout.
    pub(super) fn expire(&mut self, slot: Slot) {
        while let Some((index, entry)) = self.queues[slot].oldest()
            && entry.opened_at + self.config.delivery_timeout <= self.now
        {
            let queue = &self.queues[slot];
            let last_error = entry.last_error.clone().or_else(|| match (queue.leader, self.identity) {
                (None, _) => Some("the partition has no leader".to_owned()),
                (_, None) if self.config.idempotent => Some("no producer id was to be had".to_owned()),
                _ => None,
            });
            let fault = SendFault::TimedOut {
                partition: queue.partition.clone(),
                after: self.config.delivery_timeout,
                attempts: entry.attempts,
                in_doubt: entry.in_doubt || entry.phase == Phase::InFlight,
                last_error,
            };
            self.give_up(slot, index, fault);
        }
    }

    /// A batch fails, and with it the transaction.
    pub(super) fn give_up(&mut self, slot: Slot, index: usize, fault: SendFault) {
        let told = self.queues[slot].entries[index].reported;
        let spoils = self.config.transactional && !told && !std::mem::replace(&mut self.transaction_failed, true);
        if spoils {
            // Before the end of the batch, which may be the end of a flush: a commit waits for no more than that.
            self.emit(Output::TransactionFailed(fault.clone()));
        }
        self.drop_entry(slot, index, fault);
        if spoils {
            self.fail_unsent(&SendFault::Aborted);
        }
    }

    pub(super) fn give_up_all(&mut self, slot: Slot, fault: &SendFault) {
        while let Some((index, _)) = self.queues[slot].oldest() {
            self.give_up(slot, index, fault.clone());
        }
    }

    /// Tells a batch's end. What is in flight stays until its answer is there: it says how the numbers go on.
    pub(super) fn drop_entry(&mut self, slot: Slot, index: usize, fault: SendFault) {
        let (phase, batch) = (self.queues[slot].entries[index].phase, self.queues[slot].entries[index].batch.id);
        if phase == Phase::Splitting {
            self.split_in_vain.insert(batch, fault.clone());
        }
        self.report(slot, index, Err(fault));
        if phase != Phase::InFlight {
            self.remove(slot, index);
        }
    }

    pub(super) fn remove(&mut self, slot: Slot, index: usize) {
        let queue = &mut self.queues[slot];
        let Some(entry) = queue.entries.remove(index) else { return };
        self.by_batch.remove(&entry.batch.id);
        queue.numbers.give_up(&entry);
    }

    /// Nobody waits for it any more, so it is not sent again.
    pub(super) fn forget_if_reported(&mut self, slot: Slot, index: usize) {
        if self.queues[slot].entries[index].reported {
            self.remove(slot, index);
        }
    }

    /// Fails what has never been sent. What has a number is delivered, or those behind it would not fit.
    pub(super) fn fail_unsent(&mut self, fault: &SendFault) {
        for slot in 0..self.queues.len() {
            let unsent = |queue: &super::queue::Queue| {
                queue.entries.iter().position(|entry| entry.sequence.is_none() && entry.attempts == 0)
            };
            while let Some(index) = unsent(&self.queues[slot]) {
                self.drop_entry(slot, index, fault.clone());
            }
            self.touch(slot);
        }
    }

    /// Sees to it that what is sent next has numbers that the broker can take (KIP-360).
    pub(super) fn repair(&mut self, slot: Slot) {
        match self.queues[slot].repair() {
            Repair::None => {}
            Repair::From(next) => self.queues[slot].renumber(Some(next)),
            Repair::Anew if self.config.transactional && self.fail_out_of_order(slot) => {}
            Repair::Anew if self.queues[slot].numbers.identity != self.identity => self.queues[slot].renumber(None),
            Repair::Anew if self.has_ended() => {}
            Repair::Anew => {
                let queue = &self.queues[slot];
                let reason = match queue.numbers.lost_until {
                    Some(_) => "a batch was given up that may have been written",
                    None => "the broker misses records that it had acknowledged, or that were sent to it",
                };
                let reason = format!("{}: {reason}", queue.partition);
                self.want_identity(reason);
            }
        }
    }

    /// Records of a transaction that the broker lost track of cannot be sent under another epoch, which would be another
    /// transaction.
    fn fail_out_of_order(&mut self, slot: Slot) -> bool {
        let Some(index) = self.queues[slot].entries.iter().position(|entry| entry.out_of_order) else { return false };
        let code = self.queues[slot].entries[index].refused_with.unwrap_or(ErrorCode::OutOfOrderSequenceNumber);
        let fault = self.refused(slot, index, code, None, Vec::new());
        self.give_up(slot, index, fault);
        self.touch(slot);
        true
    }
}
