//! A start or a command in progress on the broker's thread. A caller can wait for it in steps, as Python does to check
//! for signals.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Broker, Listening};
use crate::BrokerError;

/// A broker that is starting: it reads its data directory and opens the ports of its nodes.
#[derive(Debug)]
pub struct PendingStart {
    /// Dropping it, while the broker has not started, stops the thread.
    pub(super) broker: Option<Broker>,
    pub(super) listening: Receiver<Result<Listening, BrokerError>>,
}

impl PendingStart {
    /// Waits until the broker runs, at most until the time `until`. Returns `None` if it does not run by then.
    ///
    /// # Errors
    /// Invalid settings, a port in use, a data directory that cannot be read.
    pub fn wait_until(&mut self, until: Instant) -> Result<Option<Broker>, BrokerError> {
        let Some(listening) = receive(&self.listening, until)? else { return Ok(None) };
        let mut broker = self.broker.take().ok_or(BrokerError::Stopped)?;
        broker.addresses = listening.addresses;
        broker.control_address = listening.control_address;
        Ok(Some(broker))
    }
}

/// A command whose answer is pending.
#[derive(Debug)]
pub struct PendingCommand(pub(super) Receiver<Result<Value, BrokerError>>);

impl PendingCommand {
    /// Waits for the answer, at most until the time `until`. Returns `None` if there is none by then.
    ///
    /// # Errors
    /// A command that cannot be carried out; [`BrokerError::Stopped`].
    pub fn wait_until(&mut self, until: Instant) -> Result<Option<Value>, BrokerError> {
        receive(&self.0, until)
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// The errors of [`PendingCommand::wait_until`].
    pub fn wait(&self) -> Result<Value, BrokerError> {
        self.0.recv().unwrap_or(Err(BrokerError::Stopped))
    }
}

fn receive<T>(receiver: &Receiver<Result<T, BrokerError>>, until: Instant) -> Result<Option<T>, BrokerError> {
    match receiver.recv_timeout(until.saturating_duration_since(Instant::now()).max(Duration::from_micros(1))) {
        Ok(result) => result.map(Some),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(BrokerError::Stopped),
    }
}
