//! A fault that is set, in the hands of a test.

use std::time::Duration;

use super::Broker;
use crate::BrokerError;
use crate::control::Command;

/// A fault of a running broker. It stays set when this is dropped.
#[derive(Debug)]
pub struct FaultHandle<'a> {
    pub(super) broker: &'a Broker,
    pub(super) id: u64,
}

impl FaultHandle<'_> {
    /// How many requests it took effect on.
    ///
    /// # Errors
    /// When it was removed; [`BrokerError::Stopped`].
    pub fn hits(&self) -> Result<u64, BrokerError> {
        let answer = self.broker.control(Command::FaultHits { fault: self.id })?;
        Ok(answer["hits"].as_u64().unwrap_or_default())
    }

    /// Waits until it has so many hits; whether it did in that time.
    ///
    /// # Errors
    /// The same.
    pub fn wait(&self, hits: u64, timeout: Duration) -> Result<bool, BrokerError> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let answer = self.broker.control(Command::Wait { fault: self.id, hits, timeout_ms })?;
        Ok(answer["reached"] == true)
    }

    /// Lets go what it holds.
    ///
    /// # Errors
    /// The same.
    pub fn release(&self) -> Result<(), BrokerError> {
        self.broker.control(Command::ReleaseFault { fault: self.id }).map(drop)
    }

    /// Removes it, and lets go what it holds. Gives its hits.
    ///
    /// # Errors
    /// The same.
    pub fn remove(self) -> Result<u64, BrokerError> {
        let answer = self.broker.control(Command::RemoveFault { fault: self.id })?;
        Ok(answer["hits"].as_u64().unwrap_or_default())
    }
}
