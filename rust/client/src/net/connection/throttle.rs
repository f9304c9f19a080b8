//! `throttle_time_ms` of answers: after one, the connection sends no request for that long (KIP-219).

use std::time::{Duration, Instant};

use super::Connection;
use super::pending::SharedConnection;
use crate::log::{Entry, kinds};

/// Longest wait for a broker. Quotas that are far exceeded, and garbage, ask for hours: the next request is sent after
/// this time all the same. If the broker delays its answer, the request times out.
pub(super) const LONGEST_THROTTLE: Duration = Duration::from_secs(60);

impl Connection {
    /// Until when the broker wants no request, if it said so.
    pub(crate) fn throttled_until(&self) -> Option<Instant> {
        self.shared.times().throttled_until
    }

    /// Applies the `throttle_time_ms` of an answer that [`SharedConnection::answer`] does not decode.
    pub(crate) fn throttle(&self, throttle_time_ms: i32) {
        self.shared.throttle(throttle_time_ms);
    }

    /// Takes over the wait of the previous connection to the broker.
    pub(crate) fn throttle_until(&self, until: Option<Instant>) {
        let mut times = self.shared.times();
        times.throttled_until = times.throttled_until.max(until);
    }
}

impl SharedConnection {
    /// Sends no request for this long.
    pub(super) fn throttle(&self, throttle_time_ms: i32) {
        let Some(wait) = u64::try_from(throttle_time_ms).ok().filter(|&ms| ms > 0).map(Duration::from_millis) else {
            return;
        };
        let until = Instant::now() + wait.min(LONGEST_THROTTLE);
        let mut times = self.times();
        times.throttled_until = times.throttled_until.max(Some(until));
        drop(times);
        self.limits.metrics.throttled(1);
        self.limits.log.record(&kinds::THROTTLED, || {
            let (broker, wait_ms) = (&self.broker, wait.as_millis());
            Entry::new(format!("{broker}: a quota is exceeded; the next request goes in {wait_ms} ms")).broker(broker)
        });
    }
}
