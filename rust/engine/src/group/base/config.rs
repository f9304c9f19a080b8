//! The settings of a member that both protocols have.

use std::time::Duration;

use crate::backoff::Backoff;

/// The settings of a member that both protocols have.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// `group.id`.
    pub group_id: String,
    /// `group.instance.id`: makes the member static (KIP-345).
    pub instance_id: Option<String>,
    /// `client.rack`.
    pub rack: Option<String>,
    /// `session.timeout.ms`. Under KIP-848 only the lease is computed from it, because the broker does not send its own
    /// (`group.consumer.session.timeout.ms`). It must not be longer than the broker's.
    pub session_timeout: Duration,
    /// The number of heartbeats in one interval for a while after the assignment changed
    /// ([`QUICK_HEARTBEATS`](crate::group::classic::QUICK_HEARTBEATS)); 1 for no additional ones.
    pub quick_heartbeats: u32,
    /// `max.poll.interval.ms`; also the rebalance timeout.
    pub max_poll_interval: Duration,
    /// `auto.commit.interval.ms`; `None` where `enable.auto.commit` is false.
    pub auto_commit_interval: Option<Duration>,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub backoff: Backoff,
}

impl MemberConfig {
    /// The lease ends this long before the session, which counts from the sending of the last acknowledged heartbeat.
    /// The margin covers differing clock speeds, and records that are just being handed out.
    pub(crate) fn lease_margin(&self) -> Duration {
        // The lease lasts for the shorter of the two timeouts: a fixed margin could use up all of a short one.
        (self.session_timeout.min(self.max_poll_interval) / 10).min(Duration::from_secs(1))
    }
}
