//! Applying changes to a consumer group, both new ones and those that are read back from the log.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::member::LEAVE_EPOCH;
use super::{Change, ConsumerGroup, ConsumerMember, Held};

impl ConsumerGroup {
    pub(crate) fn apply_all(&mut self, changes: &[Change]) {
        for change in changes {
            self.apply(change);
        }
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Subscription(said) => {
                let mut member = self.member_or_new(&said.id);
                member.instance_id = said.instance_id.clone();
                member.rack_id = said.rack_id.clone();
                member.client_id = Arc::clone(&said.client_id);
                member.client_host = Arc::clone(&said.client_host);
                member.subscribed_names = said.subscribed_names.clone();
                member.subscribed_regex = Arc::clone(&said.subscribed_regex);
                member.rebalance_timeout_ms = said.rebalance_timeout_ms;
                member.server_assignor = said.server_assignor.clone();
                member.classic = said.classic.clone();
                self.put_member(member);
            }
            Change::SubscriptionGone(id) => self.remove_member(id),
            Change::Current(now) => {
                let mut member = self.member_or_new(&now.id);
                member.epoch = now.epoch;
                member.previous_epoch = now.previous_epoch;
                member.state = now.state;
                member.assigned = now.assigned.clone();
                member.pending_revocation = now.pending_revocation.clone();
                self.put_member(member);
            }
            Change::CurrentGone(id) => {
                if let Some(mut member) = self.members.get(id).cloned() {
                    member.epoch = LEAVE_EPOCH;
                    member.previous_epoch = LEAVE_EPOCH;
                    member.assigned = Held::default();
                    member.pending_revocation = Held::default();
                    self.put_member(member);
                }
            }
            Change::Target(id, partitions) => {
                self.targets.insert(Arc::clone(id), partitions.clone());
            }
            Change::TargetGone(id) => {
                self.targets.remove(id);
            }
            Change::TargetEpoch(epoch, at_ms) => (self.target_epoch, self.target_at_ms) = (*epoch, *at_ms),
            Change::TargetEpochGone => (self.target_epoch, self.target_at_ms) = (-1, 0),
            Change::Epoch(epoch, hash) => (self.epoch, self.metadata_hash) = (*epoch, *hash),
            // The caller drops the group.
            Change::EpochGone => {}
            Change::Regex(regex, resolved) => {
                self.regexes.insert(Arc::clone(regex), resolved.clone());
            }
            Change::RegexGone(regex) => {
                self.regexes.remove(regex);
            }
        }
    }

    fn member_or_new(&self, id: &Arc<str>) -> ConsumerMember {
        self.members.get(id).cloned().unwrap_or_else(|| ConsumerMember::new(Arc::clone(id)))
    }

    fn put_member(&mut self, member: ConsumerMember) {
        if let Some(before) = self.members.remove(&member.id) {
            self.release(&before);
        }
        for (topic, partition, _) in member.assigned.iter().chain(member.pending_revocation.iter()) {
            match self.holders.entry((topic, partition)) {
                Entry::Vacant(free) => {
                    free.insert(member.epoch);
                }
                Entry::Occupied(mut held) => {
                    if *held.get() >= member.epoch {
                        log::error!("{topic}-{partition} of group {} has two owners", self.id);
                        debug_assert!(false, "{topic}-{partition} has two owners");
                    }
                    held.insert(member.epoch);
                }
            }
        }
        if let Some(regex) = member.regex() {
            *self.regex_members.entry(Arc::clone(regex)).or_default() += 1;
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(Arc::clone(instance_id), Arc::clone(&member.id));
        }
        self.members.insert(Arc::clone(&member.id), member);
    }

    fn remove_member(&mut self, id: &Arc<str>) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        self.release(&member);
        self.timers.stop_all(id);
        if let Some(instance_id) = &member.instance_id {
            self.static_members.remove(instance_id);
        }
    }

    fn release(&mut self, member: &ConsumerMember) {
        if let Some((regex, count)) =
            member.regex().and_then(|regex| self.regex_members.get_mut(regex).map(|c| (regex, c)))
        {
            *count -= 1;
            if *count == 0 {
                self.regex_members.remove(regex);
            }
        }
        for (topic, partition, _) in member.assigned.iter().chain(member.pending_revocation.iter()) {
            if self.holders.get(&(topic, partition)) == Some(&member.epoch) {
                self.holders.remove(&(topic, partition));
            }
        }
    }
}
