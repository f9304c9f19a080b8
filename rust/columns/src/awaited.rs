//! Something that is not there yet and that a walk cannot go on without, such as a schema that is asked for.

use std::fmt;
use std::sync::{Mutex, PoisonError};

type Then = Box<dyn FnOnce() + Send>;

/// What a walk waits for. Whoever brings it calls [`Awaited::arrived`], whatever the outcome is.
#[derive(Default)]
pub struct Awaited(Mutex<ArrivalState>);

#[derive(Default)]
struct ArrivalState {
    has_arrived: bool,
    then: Vec<Then>,
}

impl Awaited {
    /// Calls `then` once it has arrived. False if it already has: `then` is not called then.
    pub fn then(&self, then: impl FnOnce() + Send + 'static) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.has_arrived {
            waiting.then.push(Box::new(then));
        }
        !waiting.has_arrived
    }

    /// Lets everything that waits go on.
    pub fn arrived(&self) {
        let then = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.has_arrived = true;
            std::mem::take(&mut waiting.then)
        };
        then.into_iter().for_each(|then| then());
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Awaited")
    }
}
