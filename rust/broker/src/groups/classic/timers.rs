//! The timers of a classic group, which end each wait: for members whose session is over, for joins, for SyncGroup.

use std::sync::Arc;

use super::{ClassicGroup, ClassicState, JoinRules, Timer};
use crate::groups::Effects;

impl ClassicGroup {
    /// Fires the timers that are due.
    pub(crate) fn expire(&mut self, now_ms: i64, effects: &mut Effects) {
        while let Some((due_ms, timer)) = self.timers.first().cloned() {
            if due_ms > now_ms {
                break;
            }
            self.cancel(&timer);
            match timer {
                Timer::Session(id) => self.session_ended(now_ms, &id, effects),
                Timer::Join => self.complete_join(now_ms, effects),
                Timer::FirstJoin { delay_ms, remaining_ms } => {
                    self.initial_delay_ended(now_ms, delay_ms, remaining_ms, effects);
                }
                Timer::Sync => self.sync_ended(now_ms, effects),
            }
        }
    }

    /// Extends the initial delay if a member joined during it, because more may follow. Otherwise completes the join
    /// phase.
    fn initial_delay_ended(&mut self, now_ms: i64, delay_ms: i64, remaining_ms: i64, effects: &mut Effects) {
        if !self.member_added || remaining_ms == 0 {
            self.member_added = false;
            return self.complete_join(now_ms, effects);
        }
        self.member_added = false;
        let next_ms = delay_ms.min(remaining_ms);
        let timer = Timer::FirstJoin { delay_ms: next_ms, remaining_ms: (remaining_ms - delay_ms).max(0) };
        self.schedule(timer, now_ms.saturating_add(next_ms));
    }

    fn session_ended(&mut self, now_ms: i64, id: &Arc<str>, effects: &mut Effects) {
        if self.pending.contains(id) {
            log::info!("group {}: nobody has joined with the id {id}", self.id);
            self.remove(id, effects);
            return self.complete_join_without_the_lost(now_ms, effects);
        }
        if self.members.get(id).is_none_or(|member| member.is_excused()) {
            return;
        }
        log::info!("group {}: member {id} has been silent for its session's time", self.id);
        self.remove(id, effects);
        self.member_lost(now_ms, &format!("the session of member {id} has ended"), effects);
    }

    fn member_lost(&mut self, now_ms: i64, reason: &str, effects: &mut Effects) {
        match self.state {
            ClassicState::Stable | ClassicState::CompletingRebalance => {
                self.prepare_rebalance(now_ms, JoinRules::NONE, reason, effects);
            }
            ClassicState::PreparingRebalance => self.complete_join_without_the_lost(now_ms, effects),
            ClassicState::Empty => {}
        }
    }

    fn sync_ended(&mut self, now_ms: i64, effects: &mut Effects) {
        let missing = std::mem::take(&mut self.unsynced);
        if missing.is_empty() {
            return;
        }
        for id in &missing {
            self.remove(id, effects);
        }
        let reason = format!("{} members have not synced in time", missing.len());
        self.prepare_rebalance(now_ms, JoinRules::NONE, &reason, effects);
    }
}
