//! Settings of a member, and the id that it makes for itself.

use std::time::Duration;

use monedula_protocol::types::Uuid;

use crate::backoff::Backoff;

/// Settings of a member. What the classic protocol has besides (`partition.assignment.strategy`, `heartbeat.interval.ms`) is
/// the broker's business here.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    /// `group.id`.
    pub group_id: String,
    /// `group.instance.id`: makes the member static.
    pub instance_id: Option<String>,
    /// `client.rack`.
    pub rack: Option<String>,
    /// `group.remote.assignor`; `None` for the coordinator's choice.
    pub assignor: Option<String>,
    /// `group.protocol=auto`: a broker without this protocol means the classic one, not an error.
    pub falls_back: bool,
    /// `session.timeout.ms`. The broker's own (`group.consumer.session.timeout.ms`) is not on the wire, and the lease needs it:
    /// it must not be longer here than there.
    pub session_timeout: Duration,
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

impl MembershipConfig {
    /// Until the coordinator names one: the default of brokers (`group.consumer.heartbeat.interval.ms`).
    pub const FIRST_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

    /// How long before the session's end, counted from the sending of the last acknowledged heartbeat, nothing is handed out
    /// any more: for clocks that run differently, and for what is under way to the user.
    pub fn lease_margin(&self) -> Duration {
        (self.session_timeout.min(self.max_poll_interval) / 10).min(Duration::from_secs(1))
    }

    /// How long giving up partitions may wait for the commit that goes before: a coordinator that cannot commit must not keep
    /// the member from acknowledging until it is thrown out.
    pub fn revocation_commit_timeout(&self) -> Duration {
        // There are two such waits, before `on_revoked` and after it. Together they last as long as the coordinator waits for the
        // acknowledgement: a commit that arrives after one that came before its time would put back what the next owner committed.
        (self.max_poll_interval / 2).min(Duration::from_secs(30))
    }
}

/// A member's id out of 16 random bytes: a version 4 UUID as Kafka writes it (KIP-1082). It is made before the first join and
/// kept as long as the process lives, so a join whose answer is lost leaves nobody behind.
pub fn member_id(random: [u8; 16]) -> String {
    let mut bytes = random;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    // Kafka's ids never begin with a dash, which tools would take for an option.
    if Uuid(bytes).to_string().starts_with('-') {
        bytes[0] ^= 0x80;
    }
    Uuid(bytes).to_string()
}
