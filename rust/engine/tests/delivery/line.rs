//! Records that wait before they are in a batch, as those of the client do that find no room, or whose partitioner is slow.

use monedula_engine::produce::Place;
use monedula_engine::transaction::Ending;

use crate::judge::Bug;
use crate::sim::{Event, Sim, ms};
use crate::user::User;

/// One is enough: lines know nothing of each other.
pub(crate) const LINE: &str = "room";

/// How long a record is in hands at most: longer than it takes to end a transaction and to begin another.
const LONGEST_MS: u64 = 150;

impl Sim {
    /// The open transaction, by its number.
    fn transaction(&self) -> u64 {
        self.user.as_ref().map_or(0, |user| user.transactions.len() as u64)
    }

    pub(crate) fn stand(&mut self, record: u64, partition: i32) {
        self.figures.waited += 1;
        if self.lines.join(LINE, self.transaction(), (record, partition)) {
            self.at(ms(0), Event::Served);
        }
    }

    pub(crate) fn serve(&mut self) {
        let Some((place, _)) = self.lines.first(LINE) else { return };
        // Mostly there is room soon.
        let takes = if self.below(30) == 0 { self.below(LONGEST_MS) } else { self.below(3) };
        self.at(ms(takes), Event::Placed(place));
    }

    /// A record in hands can go into a batch now, unless its transaction is over.
    pub(crate) fn placed(&mut self, place: Place) {
        let Some((_, &(record, partition))) = self.lines.first(LINE) else { return };
        let goes = self.lines.goes(place) || self.bug == Some(Bug::OfAnyTransaction);
        let takes = self.user.as_ref().is_none_or(User::takes);
        self.trace(|| format!("{record} has waited: {goes}, {takes}"));
        match (goes, takes) {
            (true, true) if self.user.is_some() && self.below(50) == 0 => {
                // There was no room for it in time.
                self.user().spoilt = true;
            }
            (true, true) => self.append(record, partition),
            // What it was sent in can only be aborted.
            (true, false) => {}
            (false, _) => self.figures.taken_back += 1,
        }
        self.lines.done(LINE);
        if self.lines.stands(LINE) {
            self.at(ms(0), Event::Served);
        }
        self.drained();
    }

    /// A commit waits for what stands in line.
    pub(crate) fn drained(&mut self) {
        let Some(goal) = self.user.as_ref().and_then(User::awaited_line) else { return };
        if self.lines.passed(goal) {
            let ending = if self.user().spoilt { Ending::Abort } else { Ending::Commit };
            self.deliver(ending);
        }
    }
}
