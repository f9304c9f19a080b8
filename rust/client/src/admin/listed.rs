//! Lists of the whole cluster whose parts the coordinators have: each broker is asked for those that it coordinates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use monedula_engine::backoff::Jitter;

use super::AdminContext;
use super::call::ItemCall;
use crate::error::ClientError;

/// What the coordinators of a cluster have listed.
#[derive(Debug)]
pub struct Listed<T> {
    /// By id.
    pub items: BTreeMap<String, T>,
    /// The brokers whose items are missing, because they did not answer in time.
    pub missing: BTreeMap<i32, ClientError>,
}

/// Whether the request to a broker failed at least once, so that what it coordinates may have moved to another one.
#[derive(Clone, Default)]
pub(super) struct Unrest(Arc<AtomicBool>);

impl Unrest {
    pub(super) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn was(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl AdminContext {
    /// Asks all brokers. Repeats that with all of them if an item may have moved in the meantime, from a broker that
    /// had not answered to one that had. A broker that does not answer for half of the time is left out, and named.
    pub(super) async fn list_from_all<C, T>(
        &self,
        call: impl Fn(Unrest) -> C + Send,
        items: &str,
        timeout: Duration,
    ) -> Result<Listed<T>, ClientError>
    where
        C: ItemCall<Key = i32, Value = Vec<(String, T)>>,
        T: Send + 'static,
    {
        let until = Instant::now() + timeout;
        let left = || until.saturating_duration_since(Instant::now());
        let mut jitter = Jitter::new(self.turns.load(Ordering::Relaxed) as u64);
        for round in 0.. {
            let unrest = Unrest::default();
            let nodes: Vec<i32> = self.brokers(left()).await?.brokers.into_keys().collect();
            // A broker that is silent must not take all the time from what the others have answered.
            let share = if nodes.len() == 1 { left() } else { left() / 2 };
            let mut listed = Listed { items: BTreeMap::new(), missing: BTreeMap::new() };
            let mut is_any_answered = false;
            for (node, answered) in self.run(call(unrest.clone()), nodes, share).await? {
                match answered {
                    Ok(items) => {
                        is_any_answered = true;
                        listed.items.extend(items);
                    }
                    Err(error @ ClientError::TimedOut { .. }) => _ = listed.missing.insert(node, error),
                    Err(error) => return Err(error),
                }
            }
            match listed.missing.pop_first() {
                Some((_, error)) if !is_any_answered => return Err(error),
                Some((node, error)) => {
                    listed.missing.insert(node, error);
                    return Ok(listed);
                }
                None if !unrest.was() => return Ok(listed),
                None => {}
            }
            let delay = self.base.config.retry_backoff.delay(round, &mut jitter);
            if delay >= left() {
                break;
            }
            tokio::time::sleep(delay).await;
        }
        let last_error = Some(format!("{items} went from broker to broker meanwhile"));
        Err(ClientError::TimedOut { what: format!("listing the {items}"), after: timeout, last_error })
    }
}
