//! Leaders and in-sync replicas when nodes stop and start. All replicas share one log, so a node that starts again has
//! caught up.

use monedula_protocol::error_code::ErrorCode;

use super::Core;
use crate::cluster::{NodeId, Partition, Topic};

/// The kind of leader election that a client requests (KIP-460).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Election {
    /// Elects the preferred leader, the first replica.
    Preferred,
    /// Elects any living replica, in sync or not, for a partition without a leader.
    Unclean,
}

impl Core {
    /// Handles the stop of a node: it leaves the in-sync replicas, unless it is the last of them, and its partitions
    /// get other leaders.
    pub(crate) fn node_stopped(&mut self, node: NodeId) {
        self.nodes.set_alive(node, false);
        self.each_partition(|core, topic, index| {
            let Some(partition) = core.topics.partition_mut(topic, index) else { return };
            if partition.isr.len() > 1 {
                partition.isr.retain(|replica| *replica != node);
            }
            if partition.leader == Some(node) {
                core.elect(topic, index);
            }
        });
    }

    /// Handles the start of a node: it is in sync at once unless replication is paused, and partitions without a leader
    /// get one if its replica allows it.
    pub(crate) fn node_started(&mut self, node: NodeId) {
        self.nodes.set_alive(node, true);
        self.each_partition(|core, topic, index| {
            let Some(partition) = core.topics.partition(topic, index) else { return };
            if !partition.replicas.contains(&node) {
                return;
            }
            let had_no_leader = partition.leader.is_none();
            if had_no_leader {
                core.elect(topic, index);
            }
            // Replicas that came back while the partition had no leader could not catch up with one. They do now.
            core.catch_up(topic, index, |replica| replica == node || had_no_leader);
        });
    }

    /// Keeps replicas that are not in sync from catching up, or no longer: then all living ones are in sync, and
    /// reassignments that wait for them complete.
    pub(crate) fn pause_replication(&mut self, paused: bool) {
        self.replication_paused = paused;
        if !paused {
            self.each_partition(|core, topic, index| core.catch_up(topic, index, |_| true));
        }
    }

    /// Puts those living replicas that catch up in sync, unless replication is paused, and completes a reassignment
    /// that waits for them.
    fn catch_up(&mut self, topic: &str, index: i32, catches_up: impl Fn(NodeId) -> bool) {
        let Some(partition) = self.topics.partition(topic, index) else { return };
        let lags = |&replica: &NodeId| {
            !partition.isr.contains(&replica) && self.nodes.is_alive(replica) && catches_up(replica)
        };
        let caught_up: Vec<NodeId> = partition.replicas.iter().copied().filter(lags).collect();
        if partition.leader.is_some() && !self.replication_paused && !caught_up.is_empty() {
            let isr = partition.isr.iter().copied().chain(caught_up).collect();
            self.set_isr(topic, index, isr);
        }
        self.complete_reassignment(topic, index);
    }

    /// Sets the in-sync replicas of a partition. With enough of them the high watermark advances, and fetches that wait
    /// for the records below it are answered.
    pub(crate) fn set_isr(&mut self, topic: &str, index: i32, isr: Vec<NodeId>) {
        let Some(found) = self.topics.get_mut(topic) else { return };
        let min_insync_replicas = found.config.min_insync_replicas(&self.settings.kafka);
        let Ok(partition) = found.partition_mut(index) else { return };
        partition.isr = isr;
        partition.advance_high_watermark(min_insync_replicas);
        self.partition_changed(topic, index);
        self.housekeeping.look_for_dirt();
    }

    /// Makes a node an in-sync replica of a partition. A new replica replaces the last one, and becomes the preferred
    /// leader.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION.
    pub(crate) fn give_replica(&mut self, topic: &str, index: i32, node: NodeId) -> Result<(), ErrorCode> {
        let partition = self.topics.partition_mut(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if !partition.replicas.contains(&node) {
            let gone = partition.replicas.pop();
            partition.isr.retain(|replica| Some(*replica) != gone);
            partition.replicas.insert(0, node);
        }
        if !partition.isr.contains(&node) {
            partition.isr.push(node);
        }
        Ok(())
    }

    /// Holds a leader election that a client requests.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    pub(crate) fn elect_leader(&mut self, topic: &str, index: i32, election: Election) -> Result<(), ErrorCode> {
        let partition = self.topics.partition(topic, index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let needed = match election {
            Election::Preferred => partition.leader != partition.replicas.first().copied(),
            Election::Unclean => partition.leader.is_none(),
        };
        if !needed {
            return Err(ErrorCode::ElectionNotNeeded);
        }
        let is_alive = |replica: &&NodeId| self.nodes.is_alive(**replica);
        let alive: Vec<NodeId> = partition.replicas.iter().filter(is_alive).copied().collect();
        let in_sync = alive.iter().find(|replica| partition.isr.contains(replica)).copied();
        match election {
            Election::Preferred => {
                // The preferred replica; without any leader, also the next one in sync.
                let preferred = partition.replicas.first().copied();
                let leader = in_sync.filter(|leader| partition.leader.is_none() || Some(*leader) == preferred);
                let leader = leader.ok_or(ErrorCode::PreferredLeaderNotAvailable)?;
                self.set_leader(topic, index, Some(leader))
            }
            Election::Unclean => {
                let leader = in_sync.or(alive.first().copied()).ok_or(ErrorCode::EligibleLeadersNotAvailable)?;
                if in_sync.is_none()
                    && let Some(partition) = self.topics.partition_mut(topic, index)
                {
                    log::warn!("node {leader} leads {topic}-{index} without having been in sync");
                    partition.isr = vec![leader];
                }
                self.set_leader(topic, index, Some(leader))
            }
        }
    }

    /// Elects the first living in-sync replica as the leader; one out of sync only if the topic allows unclean leader
    /// election.
    pub(super) fn elect(&mut self, name: &str, index: i32) {
        let Some(topic) = self.topics.get(name) else { return };
        let Some(partition) = self.topics.partition(name, index) else { return };
        let is_alive = |replica: &&NodeId| self.nodes.is_alive(**replica);
        let clean = partition.replicas.iter().filter(is_alive).find(|replica| partition.isr.contains(replica));
        let unclean = match topic.config.unclean_leader_election_enable(&self.settings.kafka) {
            true => partition.replicas.iter().find(is_alive),
            false => None,
        };
        let (leader, is_clean) = (clean.or(unclean).copied(), clean.is_some());
        if leader == partition.leader {
            return;
        }
        if let (Some(leader), false) = (leader, is_clean) {
            log::warn!("node {leader} leads {name}-{index} without having been in sync");
            if let Some(partition) = self.topics.partition_mut(name, index) {
                partition.isr = vec![leader];
            }
        }
        // This cannot fail, because the partition exists.
        let _ = self.set_leader(name, index, leader);
    }

    fn each_partition(&mut self, mut work: impl FnMut(&mut Self, &str, i32)) {
        let of_topic = |topic: &Topic| {
            let indexes = topic.partitions.iter().map(|partition: &Partition| partition.index);
            indexes.map(|index| (topic.name.clone(), index)).collect::<Vec<_>>()
        };
        let partitions: Vec<_> = self.topics.all().flat_map(of_topic).collect();
        for (topic, index) in partitions {
            work(self, &topic, index);
        }
    }
}
