//! Handle to something without which a walk cannot go on, such as a schema that was requested from a registry.

use std::fmt;
use std::sync::{Mutex, PoisonError};

type Then = Box<dyn FnOnce() + Send>;

/// Condition that a walk waits for. Its supplier calls [`Awaited::arrived`], also when it has failed.
#[derive(Default)]
pub struct Awaited(Mutex<ArrivalState>);

#[derive(Default)]
struct ArrivalState {
    has_arrived: bool,
    then: Vec<Then>,
}

impl Awaited {
    /// Calls `then` on arrival. Returns false, without a call, if it has arrived already.
    pub fn then(&self, then: impl FnOnce() + Send + 'static) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.has_arrived {
            waiting.then.push(Box::new(then));
        }
        !waiting.has_arrived
    }

    /// True once it has arrived.
    pub fn has_arrived(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).has_arrived
    }

    /// Marks the arrival and runs the callbacks of all that wait for it.
    pub fn arrived(&self) {
        let then = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.has_arrived = true;
            std::mem::take(&mut waiting.then)
        };
        then.into_iter().for_each(|then| then());
    }
}

/// Equality by identity.
impl PartialEq for Awaited {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Awaited {}

impl fmt::Debug for Awaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Awaited")
    }
}
