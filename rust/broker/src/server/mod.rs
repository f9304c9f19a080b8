//! The core behind TCP: one thread that owns it, and all connections on that thread.
//!
//! [`Broker::start`] returns when every node listens. Commands reach the thread over a channel; each is answered.

mod clock;
mod connection;
mod listener;
mod shared;

use std::net::SocketAddr;
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

pub use clock::Clock;

use crate::BrokerError;
use crate::cluster::NodeId;
use crate::control::Command;
use crate::core::Core;
use crate::settings::Settings;
use shared::Shared;

/// A running broker. Dropping it stops it.
#[derive(Debug)]
pub struct Broker {
    requests: mpsc::UnboundedSender<Request>,
    addresses: Vec<(NodeId, SocketAddr)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Request {
    Command(Command, oneshot::Sender<Result<Value, BrokerError>>),
    Stop,
}

impl Broker {
    /// Starts a broker on a thread of its own, and waits until all of its nodes listen.
    ///
    /// # Errors
    /// Settings that cannot be, a port in use, a data directory that cannot be read.
    pub fn start(settings: Settings, clock: Clock) -> Result<Self, BrokerError> {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (started, listening) = std::sync::mpsc::channel();
        let run = move || run(settings, clock, receiver, &started);
        let thread = std::thread::Builder::new().name("monedula-broker".to_owned()).spawn(run).map_err(no_thread)?;
        let addresses = listening.recv().unwrap_or(Err(BrokerError::Stopped))?;
        Ok(Self { requests, addresses, thread: Some(thread) })
    }

    /// Where each node listens.
    pub fn addresses(&self) -> &[(NodeId, SocketAddr)] {
        &self.addresses
    }

    /// Carries out a command, and waits until that is done.
    ///
    /// # Errors
    /// What the command says cannot be done; [`BrokerError::Stopped`].
    pub fn control(&self, command: Command) -> Result<Value, BrokerError> {
        let (sender, receiver) = oneshot::channel();
        self.requests.send(Request::Command(command, sender)).map_err(|_| BrokerError::Stopped)?;
        receiver.blocking_recv().unwrap_or(Err(BrokerError::Stopped))
    }

    /// Closes all connections and listeners, and waits for the thread.
    pub fn stop(&mut self) {
        let _ = self.requests.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn no_thread(error: std::io::Error) -> BrokerError {
    BrokerError::Command(format!("no thread can be had: {error}"))
}

type Started = std::sync::mpsc::Sender<Result<Vec<(NodeId, SocketAddr)>, BrokerError>>;

fn run(settings: Settings, clock: Clock, mut requests: mpsc::UnboundedReceiver<Request>, started: &Started) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(no_thread(error)))),
    };
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let shared = match Core::new(settings, clock.now_ms()) {
            Ok(core) => Shared::new(core, clock),
            Err(error) => return drop(started.send(Err(error))),
        };
        match listener::listen_all(&shared).await {
            Ok(addresses) => drop(started.send(Ok(addresses))),
            Err(error) => return drop(started.send(Err(error))),
        }
        tokio::task::spawn_local(shared.clone().keep_time());
        while let Some(request) = requests.recv().await {
            match request {
                Request::Command(command, answer) => drop(answer.send(shared.control(command))),
                Request::Stop => break,
            }
        }
    });
}
