//! Settings of a member, and timing that cannot work.

use std::sync::Arc;
use std::time::Duration;

use crate::assign::{Assignor, Protocol};
use crate::backoff::Backoff;

/// How many heartbeats members send in one interval for a while after a change: for one interval after a rebalance or a new
/// target, for two after a join under KIP-848. Others hear of the next change four times sooner: the second round of a cooperative rebalance, partitions that
/// others give back under KIP-848. A group in which nothing changes costs no more.
pub const QUICK_HEARTBEATS: u32 = 4;

/// Settings of a member.
#[derive(Clone)]
pub struct GroupConfig {
    /// `group.id`.
    pub group_id: String,
    /// `group.instance.id`: makes the member static (KIP-345).
    pub instance_id: Option<String>,
    /// `client.rack`.
    pub rack: Option<String>,
    /// `partition.assignment.strategy`, the dearest first; at least one.
    pub assignors: Vec<Arc<dyn Assignor>>,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// How many heartbeats go in one interval for a while after a change of what is shared out
    /// ([`QUICK_HEARTBEATS`](crate::group::classic::QUICK_HEARTBEATS)); 1 for as many as always.
    pub quick_heartbeats: u32,
    /// `max.poll.interval.ms`; the rebalance timeout too.
    pub max_poll_interval: Duration,
    /// `auto.commit.interval.ms`; `None` where `enable.auto.commit` is false.
    pub auto_commit_interval: Option<Duration>,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub backoff: Backoff,
}

impl GroupConfig {
    /// How members give up partitions: cooperatively only if every assignor of the list can (KIP-429), since nobody knows
    /// before the join which of them will be chosen. So a rolling change takes two bounces, and a downgrade revokes all first.
    pub fn protocol(&self) -> Protocol {
        match self.assignors.iter().all(|assignor| assignor.protocol() == Protocol::Cooperative) {
            true => Protocol::Cooperative,
            false => Protocol::Eager,
        }
    }

    /// How long before the session's end, counted from the sending of the last acknowledged heartbeat, nothing is handed out
    /// any more: for clocks that run differently, and for what is under way to the user.
    pub fn lease_margin(&self) -> Duration {
        // The lease lasts for the shorter of both: a margin as long as it would leave nothing of it.
        (self.session_timeout.min(self.max_poll_interval) / 10).min(Duration::from_secs(1))
    }

    /// How long giving up partitions may wait for the commit that goes before: a coordinator that cannot commit must not keep
    /// the member from joining until it is thrown out.
    pub fn revocation_commit_timeout(&self) -> Duration {
        // There are two such waits, before `on_revoked` and after it: a third is left to join in. What arrives after that is of an
        // old generation, and refused.
        (self.max_poll_interval / 3).min(Duration::from_secs(30))
    }

    /// Timing that cannot work, or hardly (seed S107).
    pub fn timing_problems(&self) -> Vec<TimingProblem> {
        let ms = Duration::as_millis;
        let (session, heartbeat, poll) = (self.session_timeout, self.heartbeat_interval, self.max_poll_interval);
        let mut problems = Vec::new();
        if heartbeat >= session {
            problems.push(TimingProblem {
                key: "heartbeat.interval.ms",
                fatal: true,
                message: format!(
                    "heartbeat.interval.ms ({} ms) must be less than session.timeout.ms ({} ms), or the session ends between \
                     two heartbeats; a third of it or less is usual",
                    ms(&heartbeat),
                    ms(&session)
                ),
            });
        } else if heartbeat * 3 > session {
            problems.push(TimingProblem {
                key: "heartbeat.interval.ms",
                fatal: false,
                message: format!(
                    "heartbeat.interval.ms ({} ms) is more than a third of session.timeout.ms ({} ms): one lost heartbeat may \
                     end the session",
                    ms(&heartbeat),
                    ms(&session)
                ),
            });
        }
        if session < Duration::from_secs(6) {
            problems.push(TimingProblem {
                key: "session.timeout.ms",
                fatal: false,
                message: format!(
                    "session.timeout.ms ({} ms) is below 6000 ms, the least that brokers allow by default \
                     (group.min.session.timeout.ms), and makes short pauses cost a rebalance",
                    ms(&session)
                ),
            });
        }
        if poll < session {
            problems.push(TimingProblem {
                key: "max.poll.interval.ms",
                fatal: false,
                message: format!(
                    "max.poll.interval.ms ({} ms) is below session.timeout.ms ({} ms): a user that is busy is taken for hung \
                     before a dead process is taken for dead",
                    ms(&poll),
                    ms(&session)
                ),
            });
        }
        problems
    }
}

/// Timing that cannot work, or hardly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimingProblem {
    /// The setting to change.
    pub key: &'static str,
    /// Whether it cannot work at all.
    pub fatal: bool,
    /// What is wrong, with the numbers.
    pub message: String,
}
