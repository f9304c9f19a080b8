//! The settings of a member under KIP-848, and the generation of its member id.

use std::time::Duration;

use monedula_protocol::types::Uuid;

use crate::backoff::Jitter;
use crate::group::base::MemberConfig;

/// The settings of a member. Settings that only the classic protocol has (`partition.assignment.strategy`,
/// `heartbeat.interval.ms`) are the broker's under KIP-848.
#[derive(Clone, Debug)]
pub struct ConsumerProtocolConfig {
    /// The settings that both protocols have.
    pub member: MemberConfig,
    /// `group.remote.assignor`; `None` for the coordinator's choice.
    pub assignor: Option<String>,
    /// `group.protocol=auto`: if the broker does not support KIP-848, a classic member takes over instead of an error.
    pub falls_back: bool,
}

impl ConsumerProtocolConfig {
    /// The heartbeat interval before the coordinator has sent one: the default of brokers
    /// (`group.consumer.heartbeat.interval.ms`).
    pub const FIRST_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
}

/// A member id from 16 random bytes: a version 4 UUID as Kafka writes it (KIP-1082). It is generated before the first
/// join and kept for the life of the process, so a join whose answer is lost leaves no orphaned member in the group. A
/// member that has left, and of whose leaving a request had no answer, joins again under another id.
pub fn member_id(random: [u8; 16]) -> String {
    let mut bytes = random;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    // Kafka's ids never begin with a dash: command-line tools would take it for an option.
    if Uuid(bytes).to_string().starts_with('-') {
        bytes[0] ^= 0x80;
    }
    Uuid(bytes).to_string()
}

/// The id of a member that has left under `member_id`. It is as random.
pub(super) fn member_id_after(last: &str) -> String {
    let half = |first: u64| last.bytes().fold(first, |state, byte| Jitter::new(state ^ u64::from(byte)).next());
    let mut random = [0; 16];
    random[..8].copy_from_slice(&half(1).to_be_bytes());
    random[8..].copy_from_slice(&half(2).to_be_bytes());
    member_id(random)
}
