//! The rebalance of a classic group: waiting for the joins, and the next generation. [`super::timers`] ends each wait.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicState, JoinRules, Timer};
use crate::groups::{Effects, SyncAnswer};
use crate::planted::{Bug, planted};

impl ClassicGroup {
    pub(super) fn rebalance_or_complete(&mut self, now_ms: i64, rules: JoinRules, reason: &str, effects: &mut Effects) {
        match self.state {
            ClassicState::PreparingRebalance => self.maybe_complete_join(now_ms, effects),
            _ => self.prepare_rebalance(now_ms, rules, reason, effects),
        }
    }

    /// Begins a rebalance: all members must join again.
    pub(super) fn prepare_rebalance(&mut self, now_ms: i64, rules: JoinRules, reason: &str, effects: &mut Effects) {
        log::info!("group {}: rebalancing after generation {}: {reason}", self.id, self.generation_id);
        if self.state == ClassicState::CompletingRebalance {
            self.refuse_syncs(now_ms, ErrorCode::RebalanceInProgress, effects);
        }
        self.unsynced.clear();
        self.cancel(&Timer::Sync);
        self.enter(ClassicState::PreparingRebalance, now_ms);
        if !self.initial {
            return self.complete_join_or_wait(now_ms, effects);
        }
        let delay_ms = i64::from(rules.initial_delay_ms.max(0));
        if delay_ms == 0 {
            return self.complete_join(now_ms, effects);
        }
        let remaining_ms = (i64::from(self.rebalance_timeout_ms()) - delay_ms).max(0);
        self.schedule(Timer::FirstJoin { delay_ms, remaining_ms }, now_ms.saturating_add(delay_ms));
    }

    fn refuse_syncs(&mut self, now_ms: i64, error: ErrorCode, effects: &mut Effects) {
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.assignment = Bytes::new();
            if let Some(ticket) = member.syncing.take() {
                effects.sync(ticket, SyncAnswer::refused(error));
                self.renew_session(now_ms, &id);
            }
        }
    }

    fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0).max(0)
    }

    fn all_joined(&self) -> bool {
        self.joining == self.members.len() && self.pending.is_empty()
    }

    fn complete_join_or_wait(&mut self, now_ms: i64, effects: &mut Effects) {
        if self.all_joined() {
            self.complete_join(now_ms, effects);
        } else {
            let timeout_ms = self.rebalance_timeout_ms().into();
            self.schedule(Timer::Join, now_ms.saturating_add(timeout_ms));
        }
    }

    /// After a join or a leave, completes the join phase if all members have joined. The first rebalance of a group
    /// always waits for its delay.
    pub(super) fn maybe_complete_join(&mut self, now_ms: i64, effects: &mut Effects) {
        if self.state == ClassicState::PreparingRebalance && !self.initial && self.all_joined() {
            self.complete_join(now_ms, effects);
        }
    }

    /// After a session ended, completes the join phase if all other members have joined. As in Kafka, in this case the
    /// first rebalance of a group does not wait for its delay.
    pub(super) fn complete_join_without_the_lost(&mut self, now_ms: i64, effects: &mut Effects) {
        if self.state == ClassicState::PreparingRebalance && self.all_joined() {
            self.complete_join(now_ms, effects);
        }
    }

    /// Completes the join phase and begins the next generation. Dynamic members that have not joined are removed;
    /// static ones stay until their session ends.
    pub(super) fn complete_join(&mut self, now_ms: i64, effects: &mut Effects) {
        self.cancel_join();
        let late: Vec<_> = self.members.iter().filter(|(_, member)| member.joining.is_none()).collect();
        let late: Vec<_> =
            late.into_iter().filter(|(_, member)| member.instance_id.is_none()).map(|(id, _)| Arc::clone(id)).collect();
        for id in late.into_iter().filter(|_| !planted(Bug::KeepLate)) {
            log::info!("group {}: member {id} has not joined in time", self.id);
            self.remove(&id, effects);
        }
        if !self.elect_leader() && !self.members.is_empty() {
            log::warn!(
                "group {}: nobody has joined again; waiting until the sessions of its static members end",
                self.id
            );
            let timeout_ms = i64::from(self.rebalance_timeout_ms()).max(1);
            return self.schedule(Timer::Join, now_ms.saturating_add(timeout_ms));
        }
        self.generation_id = self.generation_id.wrapping_add(i32::from(!planted(Bug::KeepGeneration)));
        self.protocol_name = self.select_protocol();
        self.read_subscriptions();
        self.unsynced.clear();
        if self.members.is_empty() {
            self.enter(ClassicState::Empty, now_ms);
            return effects.store(self.record());
        }
        self.enter(ClassicState::CompletingRebalance, now_ms);
        self.tell_generation(now_ms, effects);
    }

    fn tell_generation(&mut self, now_ms: i64, effects: &mut Effects) {
        let ids: Vec<_> = self.members.keys().cloned().collect();
        log::info!("group {}: generation {} has {} members", self.id, self.generation_id, ids.len());
        for id in ids {
            let answer = self.generation_for(&id);
            self.answer_join(&id, answer, effects);
            self.renew_session(now_ms, &id);
            if let Some(member) = self.members.get_mut(&id) {
                member.is_new = false;
            }
            self.unsynced.insert(id);
        }
        self.schedule(Timer::Sync, now_ms.saturating_add(self.rebalance_timeout_ms().into()));
    }

    /// Makes sure that the leader is a member that has joined. Returns whether there is one.
    fn elect_leader(&mut self) -> bool {
        let Some(leader) = &self.leader else { return false };
        if self.members.get(leader).is_some_and(|member| member.joining.is_some()) {
            return true;
        }
        let joined = self.members.iter().find(|(_, member)| member.joining.is_some());
        let Some(elected) = joined.map(|(id, _)| Arc::clone(id)) else { return false };
        log::info!("group {}: leader {leader} has not joined in time, {elected} leads", self.id);
        self.leader = Some(elected);
        true
    }

    /// Starts the sessions of a group that was read back, and a rebalance if the group is larger than `group.max.size`.
    pub(crate) fn loaded(&mut self, now_ms: i64, rules: JoinRules, effects: &mut Effects) {
        let ids: Vec<_> = self.members.keys().cloned().collect();
        for id in &ids {
            self.renew_session(now_ms, id);
        }
        if ids.len() > rules.max_size {
            self.prepare_rebalance(now_ms, rules, "it has more members than it may now have", effects);
        }
    }
}
