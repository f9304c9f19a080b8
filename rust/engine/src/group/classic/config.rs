//! The settings of a classic member, and checks of their timing.

use std::sync::Arc;
use std::time::Duration;

use crate::assign::{Assignor, Protocol};
use crate::group::base::MemberConfig;

/// The number of heartbeats in one heartbeat interval for a while after a change. Under the classic protocol this lasts
/// for one minute after a rebalance; under KIP-848 for one interval after a new target assignment, and for two after a
/// join. Other members learn of the next step four times sooner: the second round of a cooperative rebalance,
/// partitions that others revoke under KIP-848. A group in which nothing changes sends no additional heartbeats.
pub const QUICK_HEARTBEATS: u32 = 4;

/// The settings of a classic member.
#[derive(Clone)]
pub struct ClassicConfig {
    /// The settings that both protocols have.
    pub member: MemberConfig,
    /// `partition.assignment.strategy`, in the order of preference; at least one.
    pub assignors: Vec<Arc<dyn Assignor>>,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
}

impl ClassicConfig {
    /// The rebalance protocol: cooperative only if every assignor of the list supports it (KIP-429), because the group
    /// chooses one of them only during the join. So a rolling change to cooperative takes two restarts, and a downgrade
    /// first revokes all partitions.
    pub fn protocol(&self) -> Protocol {
        match self.assignors.iter().all(|assignor| assignor.protocol() == Protocol::Cooperative) {
            true => Protocol::Cooperative,
            false => Protocol::Eager,
        }
    }

    /// Finds timing that cannot work, or only just (req S107).
    pub fn timing_problems(&self) -> Vec<TimingProblem> {
        let ms = Duration::as_millis;
        let (session, heartbeat, poll) =
            (self.member.session_timeout, self.heartbeat_interval, self.member.max_poll_interval);
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

/// A combination of timeouts that cannot work, or only just.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimingProblem {
    /// The setting to change.
    pub key: &'static str,
    /// Set if it cannot work at all, so that it is an error.
    pub fatal: bool,
    /// The problem, with the configured values.
    pub message: String,
}
