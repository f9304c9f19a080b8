//! Records that wait before they are added to a batch. In the client, such records find no room in `buffer.memory`, or
//! their partitioner is slow.

use monedula_engine::produce::QueuedId;
use monedula_engine::transaction::Ending;

use crate::judge::Bug;
use crate::sim::{Event, Sim, ms};
use crate::user::User;

/// The only queue: queues do not depend on each other.
pub(crate) const QUEUE: &str = "room";

/// Longest time to send the first record of the queue: longer than ending a transaction and beginning another.
const LONGEST_MS: u64 = 150;

impl Sim {
    /// The number of the open transaction.
    fn transaction(&self) -> u64 {
        self.user.as_ref().map_or(0, |user| user.transactions.len() as u64)
    }

    pub(crate) fn queue_record(&mut self, record: u64, partition: i32) {
        self.figures.waited += 1;
        if self.waiting.push(QUEUE, self.transaction(), (record, partition)) {
            self.at(ms(0), Event::ServeWaiting);
        }
    }

    pub(crate) fn serve_waiting(&mut self) {
        let Some((id, _)) = self.waiting.front(QUEUE) else { return };
        // Usually there is room soon.
        let takes = if self.below(30) == 0 { self.below(LONGEST_MS) } else { self.below(3) };
        self.at(ms(takes), Event::SendWaiting(id));
    }

    /// The first record of the queue can be added to a batch now, unless its transaction has ended.
    pub(crate) fn send_waiting(&mut self, id: QueuedId) {
        let Some((_, &(record, partition))) = self.waiting.front(QUEUE) else { return };
        let may_send = self.waiting.may_send(id) || self.bug == Some(Bug::OfAnyTransaction);
        let admits = self.user.as_ref().is_none_or(User::admits_waiting);
        self.trace(|| format!("{record} has waited: {may_send}, {admits}"));
        match (may_send, admits) {
            (true, true) if self.user.is_some() && self.below(50) == 0 => {
                // There was no room for the record in time.
                self.user().spoilt = true;
            }
            (true, true) => self.append(record, partition),
            // The record's transaction can only be aborted.
            (true, false) => {}
            (false, _) => self.figures.taken_back += 1,
        }
        self.waiting.pop(QUEUE);
        if self.waiting.has_queue(QUEUE) {
            self.at(ms(0), Event::ServeWaiting);
        }
        self.deliver_if_none_waits();
    }

    /// A commit continues once no record of its transaction waits any more.
    pub(crate) fn deliver_if_none_waits(&mut self) {
        let Some(last) = self.user.as_ref().and_then(User::awaits_waiting) else { return };
        if self.waiting.is_done_up_to(last) {
            let ending = if self.user().spoilt { Ending::Abort } else { Ending::Commit };
            self.deliver(ending);
        }
    }
}
