//! Health and figures of a membership, and the log lines of its events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::group::{GroupEvent, Status};
use monedula_engine::{Now, TopicPartition};

use crate::log::{EventKind, kinds};

/// Durations of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of operations that ended.
    pub count: u64,
    /// The duration of the last one.
    pub last: Duration,
    /// The longest duration.
    pub max: Duration,
    /// The sum of all durations.
    pub total: Duration,
}

impl Latency {
    fn take(&mut self, took: Duration) {
        self.count += 1;
        self.last = took;
        self.max = self.max.max(took);
        self.total += took;
    }
}

/// Counters of a membership since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// Rebalances that ended with an assignment, from the notice of the rebalance on.
    pub rebalances: Latency,
    /// JoinGroup requests.
    pub joins: Latency,
    /// SyncGroup requests.
    pub syncs: Latency,
    /// Heartbeats that were acknowledged.
    pub heartbeats: Latency,
    /// Commits, including their retries.
    pub commits: Latency,
    /// Partitions whose commit failed.
    pub commits_failed: u64,
    /// Partitions newly assigned.
    pub assigned: u64,
    /// Partitions revoked, not counting those that were lost.
    pub revoked: u64,
    /// Partitions lost.
    pub lost: u64,
    /// Number of times that the lease ran out.
    pub lease_expiries: u64,
    /// Records that were ready to be handed out when the lease ran out.
    pub records_stalled: u64,
    /// Number of times that the coordinator was lost.
    pub coordinators_lost: u64,
    /// Errors that were retried instead of raised.
    pub retried: u64,
    /// Callbacks that ran.
    pub callbacks: u64,
    /// Events dropped because no hook took them in time.
    pub events_lost: u64,
    /// Lost members for whose return the group waited.
    pub losses_waited_for: u64,
    /// Partitions that are reserved for lost members at present.
    pub reserved: usize,
    /// Time until the last reservation ends.
    pub reserved_left: Duration,
}

impl GroupFigures {
    pub(crate) fn count(&mut self, event: &GroupEvent) {
        match event {
            GroupEvent::Joined { took, .. } => self.joins.take(*took),
            GroupEvent::Synced { took, rebalance, assigned, revoked, .. } => {
                self.syncs.take(*took);
                self.rebalances.take(*rebalance);
                self.assigned += *assigned as u64;
                self.revoked += *revoked as u64;
            }
            GroupEvent::Heartbeat { took } => self.heartbeats.take(*took),
            GroupEvent::Commit { took, failed, .. } => {
                self.commits.take(*took);
                self.commits_failed += *failed as u64;
            }
            GroupEvent::Lost { partitions, .. } => self.lost += partitions.len() as u64,
            GroupEvent::Reserved { .. } => self.losses_waited_for += 1,
            GroupEvent::LeaseExpired => self.lease_expiries += 1,
            GroupEvent::CoordinatorLost { .. } => self.coordinators_lost += 1,
            GroupEvent::Retried { .. } => self.retried += 1,
            GroupEvent::StateChanged { .. }
            | GroupEvent::FellBack { .. }
            | GroupEvent::CoordinatorFound { .. }
            | GroupEvent::RebalanceStarted { .. }
            | GroupEvent::RebalanceWanted { .. }
            | GroupEvent::Released { .. }
            | GroupEvent::LeaseRenewed
            | GroupEvent::UnknownTopic { .. }
            | GroupEvent::TopicFound { .. }
            | GroupEvent::Left { .. } => {}
        }
    }
}

/// The state of a membership at one moment.
#[derive(Clone, Debug)]
pub struct GroupHealth {
    /// The group id.
    pub group_id: String,
    /// The static id (`group.instance.id`).
    pub instance_id: Option<String>,
    /// The state of the member. Its points in time are relative to the start of the group's task: [`Self::since`] and
    /// [`Self::until`] say how far away they are.
    pub status: Status,
    /// The subscribed topics that do not exist.
    pub unknown_topics: BTreeSet<Arc<str>>,
    /// True if answers did not know the subscribed topics so far: they may not exist.
    pub has_doubtful_topics: bool,
    /// Time for which no topic has matched the subscribed pattern; `None` for one that brokers match.
    pub unmatched: Option<Duration>,
    /// The last error that was retried instead of raised, and how long ago.
    pub last_error: Option<(Duration, String)>,
    /// Partitions that are revoked as soon as the user has finished the records it holds of them.
    pub wanted: Vec<TopicPartition>,
    /// Counters since the start.
    pub figures: GroupFigures,
    pub(super) now: Now,
}

impl GroupHealth {
    /// The time since a point in time of the status.
    pub fn since(&self, at: Now) -> Duration {
        self.now.saturating_sub(at)
    }

    /// The time until a point in time of the status; zero if it has passed.
    pub fn until(&self, at: Now) -> Duration {
        at.saturating_sub(self.now)
    }
}

pub(crate) fn kind(event: &GroupEvent) -> &'static EventKind {
    match event {
        GroupEvent::StateChanged { .. } => &kinds::STATE_CHANGED,
        GroupEvent::FellBack { .. } => &kinds::FELL_BACK,
        GroupEvent::CoordinatorFound { .. } => &kinds::COORDINATOR_FOUND,
        GroupEvent::CoordinatorLost { .. } => &kinds::COORDINATOR_LOST,
        GroupEvent::RebalanceStarted { .. } => &kinds::REBALANCE_STARTED,
        GroupEvent::Joined { .. } => &kinds::JOINED,
        GroupEvent::Synced { .. } => &kinds::ASSIGNED,
        GroupEvent::Heartbeat { .. } => &kinds::HEARTBEAT,
        GroupEvent::Commit { failed: 0, .. } => &kinds::COMMITTED,
        GroupEvent::Commit { .. } => &kinds::COMMIT_FAILED,
        GroupEvent::Retried { .. } => &kinds::GROUP_REQUEST_RETRIED,
        GroupEvent::RebalanceWanted { .. } => &kinds::REVOCATION_WANTED,
        GroupEvent::Lost { .. } => &kinds::PARTITIONS_LOST,
        GroupEvent::Reserved { .. } => &kinds::PARTITIONS_RESERVED,
        GroupEvent::Released { .. } => &kinds::RESERVATION_ENDED,
        GroupEvent::LeaseExpired => &kinds::LEASE_EXPIRED,
        GroupEvent::LeaseRenewed => &kinds::LEASE_RENEWED,
        GroupEvent::UnknownTopic { .. } => &kinds::TOPIC_MISSING,
        GroupEvent::TopicFound { .. } => &kinds::TOPIC_FOUND,
        GroupEvent::Left { .. } => &kinds::LEFT,
    }
}

/// The log line of an event; `is_consumer` is true under KIP-848.
pub(crate) fn sentence(event: &GroupEvent, is_consumer: bool) -> String {
    let ms = Duration::as_millis;
    match event {
        GroupEvent::StateChanged { from, to } => format!("{} -> {}", from.name(), to.name()),
        GroupEvent::FellBack { reason } => format!(
            "group.protocol=auto: the broker does not offer the protocol of KIP-848 ({reason}); the classic one is in force"
        ),
        GroupEvent::CoordinatorFound { node_id } => format!("broker {node_id} coordinates it"),
        GroupEvent::CoordinatorLost { reason } => format!("the coordinator is to be found anew: {reason}"),
        GroupEvent::RebalanceStarted { reason } => format!("a rebalance begins: {reason}"),
        // Under KIP-848 there is no leader, and the assignor is the coordinator's default or the
        // one that the member requested.
        GroupEvent::Joined { generation, protocol, took, .. } if is_consumer => {
            let assignor = if protocol.is_empty() { String::new() } else { format!(", {protocol}") };
            format!("joined in epoch {generation}{assignor}, in {} ms", ms(took))
        }
        GroupEvent::Joined { generation, leader, protocol, took } => {
            let role = if *leader { "leader" } else { "follower" };
            format!("joined generation {generation} as {role}, {protocol}, in {} ms", ms(took))
        }
        GroupEvent::Synced { generation, rebalance, owned, assigned, revoked, .. } => {
            let (what, took) = (if is_consumer { "epoch" } else { "generation" }, ms(rebalance));
            format!("{what} {generation}: {owned} partitions, {assigned} assigned, {revoked} to revoke, in {took} ms")
        }
        GroupEvent::Heartbeat { took } => format!("heartbeat acknowledged in {} ms", ms(took)),
        GroupEvent::Commit { took, partitions, failed: 0 } => {
            format!("{partitions} partitions committed in {} ms", ms(took))
        }
        GroupEvent::Commit { took, partitions, failed } => {
            format!("{partitions} partitions committed and {failed} not, in {} ms", ms(took))
        }
        GroupEvent::Retried { api, reason } => format!("{api} is tried again: {reason}"),
        GroupEvent::RebalanceWanted { partitions } => format!("to be revoked: {}", list(partitions)),
        GroupEvent::Lost { partitions, reason } => format!("lost {}: {reason}", list(partitions)),
        GroupEvent::Reserved { partitions, members, names, left } => {
            format!("{} kept for {} for {} ms", list(partitions), lost(*members, names), ms(left))
        }
        GroupEvent::Released { partitions } => format!("{} not kept any more", list(partitions)),
        GroupEvent::LeaseExpired => {
            "no heartbeat was acknowledged for too long: nothing is handed out until one is".into()
        }
        GroupEvent::LeaseRenewed => "a heartbeat was acknowledged: records are handed out again".into(),
        GroupEvent::UnknownTopic { topic, nearest } => {
            let near = nearest.as_ref().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            format!("topic {topic} does not exist{near}; it is read as soon as it does")
        }
        GroupEvent::TopicFound { topic } => format!("topic {topic} exists now"),
        GroupEvent::Left { reason } => format!("left: {reason}"),
    }
}

/// The lost members of a reservation, for the log.
fn lost(members: usize, names: &BTreeSet<Arc<str>>) -> String {
    let named: Vec<&str> = names.iter().map(|name| &**name).collect();
    match (members, named.is_empty()) {
        (1, true) => "a lost member".into(),
        (members, true) => format!("{members} lost members"),
        (members, false) if members == named.len() => named.join(", "),
        (members, false) => format!("{members} of {}", named.join(", ")),
    }
}

/// Partitions for the log, at most ten by name.
fn list(partitions: &BTreeSet<TopicPartition>) -> String {
    let shown: Vec<String> = partitions.iter().take(10).map(ToString::to_string).collect();
    match partitions.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
