//! What is under way on the broker's thread, for callers that must not wait without looking up.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Broker, Listening};
use crate::BrokerError;

/// A broker that starts: reads its data directory, makes its nodes listen.
#[derive(Debug)]
pub struct Starting {
    /// Stops the thread if this is dropped early.
    pub(super) broker: Option<Broker>,
    pub(super) listening: Receiver<Result<Listening, BrokerError>>,
}

impl Starting {
    /// Waits until the broker runs, or until that time; `None` then.
    ///
    /// # Errors
    /// Settings that cannot be, a port in use, a data directory that cannot be read.
    pub fn wait_until(&mut self, until: Instant) -> Result<Option<Broker>, BrokerError> {
        let Some(listening) = receive(&self.listening, until)? else { return Ok(None) };
        let mut broker = self.broker.take().ok_or(BrokerError::Stopped)?;
        broker.addresses = listening.addresses;
        broker.control_address = listening.control_address;
        Ok(Some(broker))
    }
}

/// A command under way.
#[derive(Debug)]
pub struct Answering(pub(super) Receiver<Result<Value, BrokerError>>);

impl Answering {
    /// Waits for what comes of the command, or until that time; `None` then.
    ///
    /// # Errors
    /// What the command says cannot be done; [`BrokerError::Stopped`].
    pub fn wait_until(&mut self, until: Instant) -> Result<Option<Value>, BrokerError> {
        receive(&self.0, until)
    }

    /// Waits for what comes of the command.
    ///
    /// # Errors
    /// The same.
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
