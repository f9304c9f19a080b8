//! The handle of a fault that is set.

use std::time::Duration;

use super::Broker;
use crate::BrokerError;
use crate::control::Command;

/// The handle of a fault of a running broker. Dropping it leaves the fault set.
#[derive(Debug)]
pub struct FaultHandle<'a> {
    pub(super) broker: &'a Broker,
    pub(super) id: u64,
}

impl FaultHandle<'_> {
    /// The number of requests on which the fault took effect.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if the fault was removed; [`BrokerError::Stopped`].
    pub fn hits(&self) -> Result<u64, BrokerError> {
        let answer = self.broker.control(Command::FaultHits { fault: self.id })?;
        Ok(answer["hits"].as_u64().unwrap_or_default())
    }

    /// Waits until the fault has a number of hits. Returns whether it reached that within `timeout`, which is in the
    /// machine's time.
    ///
    /// # Errors
    /// The errors of [`FaultHandle::hits`].
    pub fn wait(&self, hits: u64, timeout: Duration) -> Result<bool, BrokerError> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let answer = self.broker.control(Command::Wait { fault: self.id, hits, timeout_ms })?;
        Ok(answer["reached"] == true)
    }

    /// Releases the requests and answers that the fault holds. The fault stays set.
    ///
    /// # Errors
    /// The errors of [`FaultHandle::hits`].
    pub fn release(&self) -> Result<(), BrokerError> {
        self.broker.control(Command::ReleaseFault { fault: self.id }).map(drop)
    }

    /// Removes the fault, and releases the requests and answers that it holds. Returns its hits.
    ///
    /// # Errors
    /// The errors of [`FaultHandle::hits`].
    pub fn remove(self) -> Result<u64, BrokerError> {
        let answer = self.broker.control(Command::RemoveFault { fault: self.id })?;
        Ok(answer["hits"].as_u64().unwrap_or_default())
    }
}
