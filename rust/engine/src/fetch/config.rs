//! Settings of the machine.

use std::time::Duration;

use crate::backoff::Backoff;

/// Settings of the machine.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// The reset without a position (`auto.offset.reset`).
    pub reset: ResetPolicy,
    /// The time that a broker may wait for `fetch.min.bytes` (`fetch.max.wait.ms`).
    pub max_wait: Duration,
    /// Cap of one partition's bytes in an answer (`max.partition.fetch.bytes`).
    pub max_partition_bytes: i32,
    /// The time that a preferred replica is used before the leader is asked again (KIP-392; `metadata.max.age.ms`).
    pub preferred_replica_ttl: Duration,
    /// Waits between repetitions (`retry.backoff.ms`, `retry.backoff.max.ms`).
    pub backoff: Backoff,
    /// After how long a topic or partition that no answer knows counts as missing
    /// (`topic.metadata.propagation.max.ms`).
    pub propagation: Duration,
}

/// The reset where no position is known, or where the known one is beyond the log's end (`auto.offset.reset`). A
/// position that retention has passed by goes to the smallest retained offset under all but [`Self::Fail`]: a policy of
/// `latest` must not skip records that are in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetPolicy {
    /// Go to the smallest offset.
    Earliest,
    /// Go to the end.
    #[default]
    Latest,
    /// Go to the first record that is at most so old (KIP-1106), or to the end if there is none.
    ByDuration(Duration),
    /// Raise an error.
    Fail,
}
