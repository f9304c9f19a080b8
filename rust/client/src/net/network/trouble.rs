//! Trouble with brokers, for errors that must say what happened where: addresses that cannot be connected to, and
//! answers that are owed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::{Address, Network, NodeId};
use crate::error::{ClientError, RequestError};
use crate::lock::lock;
use crate::run_time::{self, RunInstant};

/// Time after which a silent broker owes the answer, and one that is not connected to is told of.
const OWED: Duration = Duration::from_secs(1);

/// Trouble with brokers, or requests that they owe, when a wait was over.
pub(crate) struct Owed(Option<String>);

impl Owed {
    /// The last error of that wait, with what is wrong with the brokers where the error does not say it.
    pub(crate) fn explain(&self, last_error: Option<String>) -> Option<String> {
        match (last_error, &self.0) {
            // A request that failed names its broker.
            (Some(error), Some(owed)) if !error.contains(": ") || error.ends_with("NETWORK_EXCEPTION") => {
                Some(format!("{error}; {owed}"))
            }
            (last_error, owed) => last_error.or_else(|| owed.clone()),
        }
    }
}

/// Number of reasons that are told; others are counted.
const TOLD: usize = 3;

/// Reasons as one text; `None` if there are none.
pub(crate) fn joined(reasons: impl IntoIterator<Item = String>) -> Option<String> {
    let mut reasons: Vec<String> = reasons.into_iter().collect();
    let more = reasons.len().saturating_sub(TOLD);
    if more > 0 {
        reasons.truncate(TOLD);
        reasons.push(format!("{more} more"));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Notes that an address is being connected to, until it is dropped.
pub(super) struct Connecting<'a> {
    all: &'a Mutex<BTreeMap<String, RunInstant>>,
    broker: String,
}

impl<'a> Connecting<'a> {
    pub(super) fn begin(all: &'a Mutex<BTreeMap<String, RunInstant>>, (host, port): &Address) -> Self {
        let broker = format!("{host}:{port}");
        lock(all).insert(broker.clone(), RunInstant::now());
        Self { all, broker }
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(&self.broker);
    }
}

impl Network {
    /// The error of a cluster that was not reached for so long: each address that failed last time, with what happened.
    pub(crate) fn unreachable(&self, after: Duration) -> ClientError {
        self.unreachable_or(after, "no attempt has ended yet")
    }

    /// As [`Self::unreachable`]; `otherwise` is the reason where every address could be connected to.
    pub(crate) fn unreachable_or(&self, after: Duration, otherwise: &str) -> ClientError {
        if let Some(error) = lock(&self.no_credentials).clone() {
            return ClientError::Authentication(error);
        }
        let failures = lock(&self.failures);
        let reasons: Vec<String> = failures.iter().map(|(broker, reason)| format!("{broker}: {reason}")).collect();
        let reasons = if reasons.is_empty() { otherwise.to_owned() } else { reasons.join("; ") };
        ClientError::Unreachable { after, reasons }
    }

    /// Present trouble with the brokers, for the error of a wait that is over: each address that could not be
    /// connected to, and each that owes an answer. `None` if nothing is.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble_within(OWED)
    }

    /// As [`Self::trouble`], where a broker owes an answer after `owed`.
    fn trouble_within(&self, owed: Duration) -> Option<String> {
        let mut reasons: BTreeMap<String, String> = lock(&self.failures).clone();
        for slot in self.all_slots() {
            let Ok(slot) = slot.try_lock() else { continue };
            let Some(link) = &slot.link else { continue };
            let waiting = link.connection.oldest_waiting();
            if let Some((api, waited, _)) = waiting.filter(|(_, waited, held_back)| *waited >= *held_back + owed) {
                let reason = || format!("no answer to {} for {} ms", api.name(), waited.as_millis());
                reasons.entry(link.connection.broker().to_owned()).or_insert_with(reason);
            }
        }
        for (broker, since) in lock(&self.connecting).iter() {
            let reason = || format!("no connection for {} ms", since.elapsed().as_millis());
            reasons.entry(broker.clone()).or_insert_with(reason);
        }
        let reasons: Vec<String> = reasons.into_iter().map(|(broker, reason)| format!("{broker}: {reason}")).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Reason for a wait's end: trouble with brokers, or else the requests that were waited for.
    pub(crate) fn owed(&self) -> Owed {
        Owed(self.trouble().or_else(|| self.trouble_within(Duration::ZERO)))
    }

    /// The last error of a wait that is over, with the brokers' trouble where the error does not have it, or else with
    /// the requests that were waited for just now.
    pub(crate) fn explain(&self, last_error: Option<String>) -> Option<String> {
        self.owed().explain(last_error)
    }

    /// The outcome of `work`. Past `timeout`, the answers that brokers owe it, asked before the work is dropped with
    /// its requests and connections.
    pub(crate) async fn within<T>(&self, timeout: Duration, work: impl Future<Output = T>) -> Result<T, Owed> {
        let mut work = std::pin::pin!(work);
        run_time::timeout(timeout, work.as_mut()).await.ok_or_else(|| self.owed())
    }

    /// The caller waits for this node no longer. Noted as a failure of its address, although the attempt itself was cut
    /// short.
    pub(crate) fn gave_up(&self, node: NodeId, after: Duration) -> RequestError {
        let Ok((host, port)) = self.address(node) else { return RequestError::UnknownNode(-1) };
        let broker = format!("{host}:{port}");
        lock(&self.failures).insert(broker.clone(), no_answer(after));
        RequestError::TimedOut { broker, after }
    }
}

/// The failure of an address that did not answer in time.
pub(super) fn no_answer(after: Duration) -> String {
    format!("no answer within {} ms", after.as_millis())
}
