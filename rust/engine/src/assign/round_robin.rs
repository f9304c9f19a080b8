//! Round robin: the sorted partitions of all topics are assigned to the members in turn.

use super::group::Group;
use super::{AssignError, Assignment, Assignor, MemberSubscription, Protocol, Topics};

/// Java's `RoundRobinAssignor`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundRobin;

impl Assignor for RoundRobin {
    fn name(&self) -> &str {
        "roundrobin"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Eager
    }

    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        let group = Group::static_first(topics, members);
        let mut owners = vec![None; group.partition_count()];
        let mut turn = 0;
        for topic in 0..group.topic_count() {
            let subscribers = &group.subscribers[topic];
            for partition in group.partitions(topic) {
                // A member that does not subscribe to the topic is skipped.
                let next = subscribers.partition_point(|&member| member < turn);
                let member = subscribers.get(next).copied().unwrap_or(subscribers[0]);
                owners[partition] = Some(member);
                turn = member + 1;
            }
        }
        Ok(group.assignment(&owners))
    }
}
