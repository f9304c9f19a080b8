//! Partitions whose next record cannot be decoded before something has arrived, such as a schema. They are held back, as
//! paused ones are; the others go on.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use monedula_columns::{Awaited, WalkErrorKind};
use monedula_engine::TopicPartition;

use super::partition_buffer::HoldReason;
use super::{BufferState, FetchBuffer};
use crate::error::ClientError;

/// How long a partition is held back after its error was raised: a loop that catches errors and polls again would else
/// do nothing but raise the same one.
const ASKS_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl FetchBuffer {
    /// Lets what is awaited call this buffer.
    pub(crate) fn know_itself(self: &Arc<Self>) {
        // It is called once.
        let _ = self.me.set(Arc::downgrade(self));
    }

    /// Whether a partition has records that wait for something.
    pub(crate) fn awaits_any(&self) -> bool {
        self.state().partitions.values().any(|buffer| buffer.is_held_by(HoldReason::Lookup))
    }

    /// Holds a partition back until this has arrived.
    pub(super) fn hold_until(&self, state: &mut BufferState, partition: &TopicPartition, awaited: &Awaited) {
        self.change(state, partition, |buffer| buffer.set_held(HoldReason::Lookup, true));
        let (me, theirs) = (self.me.get().cloned().unwrap_or_default(), partition.clone());
        let arrived = move || {
            if let Some(buffer) = Weak::upgrade(&me) {
                buffer.go_on(&mut buffer.state(), &theirs);
                buffer.arrived.notify_all();
            }
        };
        if !awaited.then(arrived) {
            self.go_on(state, partition);
        }
    }

    /// Raises an error for want of something, such as a schema. The partition is held back until it is raised, and tries
    /// again some time after.
    pub(super) fn raise_lack(&self, state: &mut BufferState, error: ClientError) {
        let Some(partition) = error.partition().cloned() else { return };
        self.change(state, &partition, |buffer| buffer.set_held(HoldReason::Lookup, true));
        state.raise.push_back(error);
    }

    /// An error was raised. A partition that it stopped for want of something tries again later.
    pub(super) fn raised(&self, state: &mut BufferState, error: &ClientError) {
        let Some(partition) = error.partition().filter(|_| is_lack(error)) else { return };
        state.lacking.insert(partition.clone(), Instant::now() + ASKS_AGAIN_AFTER);
        // Other threads may wait for more than that.
        self.arrived.notify_all();
    }

    /// Lets partitions go on whose errors were raised long enough ago. Returns when the next one does.
    pub(super) fn ask_again(&self, state: &mut BufferState, now: Instant) -> Option<Instant> {
        let due = |(_, at): &(&TopicPartition, &Instant)| **at <= now;
        while let Some(partition) = state.lacking.iter().find(due).map(|(partition, _)| partition.clone()) {
            self.go_on(state, &partition);
        }
        state.lacking.values().min().copied()
    }

    /// A partition waits for nothing any more.
    pub(super) fn go_on(&self, state: &mut BufferState, partition: &TopicPartition) {
        state.lacking.remove(partition);
        if state.partitions.get(partition).is_some_and(|buffer| buffer.is_held_by(HoldReason::Lookup)) {
            self.change(state, partition, |buffer| buffer.set_held(HoldReason::Lookup, false));
        }
    }
}

/// Whether an error says nothing about the bytes, so that they may be walked again.
pub(super) fn is_lack(error: &ClientError) -> bool {
    matches!(error, ClientError::Decode { error, .. } if matches!(error.kind, WalkErrorKind::Lacks { .. }))
}
