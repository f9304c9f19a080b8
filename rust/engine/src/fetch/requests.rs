//! Fetch requests: what the next one to a node says, and one that gets no answer.

use super::AssignmentId;
use super::io::FetchPlan;
use super::machine::FetchMachine;
use super::partition::PartitionState;
use super::session::SessionPartition;
use crate::Now;

impl FetchMachine {
    /// The request to send to this node now, if there is one; it counts as sent.
    pub fn poll_fetch(&mut self, now: Now, node_id: i32) -> Option<FetchPlan> {
        self.now = now;
        let node = self.nodes.get_mut(&node_id)?;
        if !node.is_ready(now) {
            return None;
        }
        self.requests += 1;
        node.asked = self.requests;
        let by_topic_id = node.knows_topic_ids();
        if by_topic_id != node.by_topic_id {
            // A session names topics or has their ids, not both: the other needs a new one.
            node.session.failed(None);
            node.by_topic_id = by_topic_id;
        }
        let dirty = std::mem::take(&mut node.dirty);
        if dirty.iter().any(|&id| self.clashes(node_id, id)) {
            self.reopen(node_id);
        }
        let node = self.nodes.get_mut(&node_id)?;
        let partitions = &self.partitions;
        let ids = if node.session.wants_full() { &node.members } else { &dirty };
        let fetched_here = |state: &&PartitionState| state.fetched_from == Some(node_id);
        let to_send = |id| partitions.get(id).filter(fetched_here).map(PartitionState::to_send);
        let request = node.session.request(ids.iter().map(|id| (*id, to_send(id))));
        node.sent_at = Some(now);
        let retired = &self.retired;
        let mut sent: Vec<(&PartitionState, SessionPartition)> =
            request.send.iter().filter_map(|&(id, sent)| Some((partitions.get(&id)?, sent))).collect();
        // Brokers fill their answers in the order of a full request: what was served longest ago comes first, or a busy
        // partition would starve those behind it. In a session they see to that themselves.
        if request.full {
            sent.sort_by_key(|(state, _)| state.served);
        }
        let name = |id| partitions.get(id).map(|state| &state.partition).or_else(|| retired.get(id)).cloned();
        Some(FetchPlan {
            session_id: request.session_id,
            session_epoch: request.epoch,
            by_topic_id,
            partitions: sent.into_iter().map(|(state, sent)| (state.partition.clone(), sent.topic_id, sent)).collect(),
            forget: request.forget.iter().filter_map(|(id, topic_id)| Some((name(id)?, *topic_id))).collect(),
        })
    }

    /// Tells whether the next request would both add and forget the same name. A broker adds first and then forgets
    /// what it has just added: such a change needs a new session.
    fn clashes(&self, node_id: i32, id: AssignmentId) -> bool {
        let known = self.nodes.get(&node_id).and_then(|node| node.session.asked(id));
        let fetched_here = |state: &&PartitionState| state.fetched_from == Some(node_id);
        match (known, self.partitions.get(&id)) {
            (None, _) => false,
            (Some(known), Some(state)) => fetched_here(&state) && state.topic_id != known.topic_id,
            (Some(_), None) => {
                let successor = self.retired.get(&id).and_then(|partition| self.by_partition.get(partition));
                successor.and_then(|id| self.partitions.get(id)).is_some_and(|state| fetched_here(&state))
            }
        }
    }

    fn reopen(&mut self, node_id: i32) {
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.session.failed(None);
        }
    }

    pub(super) fn fetch_failed(&mut self, node_id: i32, now: Now) {
        let Some(node) = self.nodes.get_mut(&node_id) else { return };
        node.session.failed(None);
        node.sent_at = None;
        node.retry_at = now + self.config.backoff.delay(node.attempts, &mut self.jitter);
        node.attempts += 1;
        let members = node.members.clone();
        self.forget_retired();
        for id in members {
            // A follower that fails is not asked again: its leader is the safe choice.
            if self.partitions.get_mut(&id).is_some_and(|state| state.preferred.take().is_some()) {
                self.touch(id, now);
            }
        }
        self.want_metadata();
    }

    /// Drops the names of retired partitions that no session holds any more.
    pub(super) fn forget_retired(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        // A node that nothing is fetched from is sent no request that could take partitions out of its session: the
        // session ends.
        for node in self.nodes.values_mut().filter(|node| node.members.is_empty() && node.sent_at.is_none()) {
            node.session.failed(None);
        }
        let nodes = &self.nodes;
        self.retired.retain(|&id, _| nodes.values().any(|node| node.session.asked(id).is_some()));
    }
}
