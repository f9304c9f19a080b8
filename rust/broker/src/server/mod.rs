//! The server: one thread that owns the core, and serves the TCP connections of all nodes and the control port.
//!
//! [`Broker::start`] returns when every node listens. Commands reach the thread over a channel, and each is answered.

mod clock;
mod commands;
mod connection;
mod control_port;
mod fault_handle;
mod listener;
mod pending;
mod shared;
mod tls;
mod token_endpoint;

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

pub use clock::Clock;
pub use fault_handle::FaultHandle;
pub use pending::{PendingCommand, PendingStart};

use crate::BrokerError;
use crate::cluster::NodeId;
use crate::control::Command;
use crate::core::Core;
use crate::faults::Fault;
use crate::settings::Settings;
use shared::Shared;

/// A running broker. Dropping it stops it.
#[derive(Debug)]
pub struct Broker {
    requests: mpsc::UnboundedSender<BrokerRequest>,
    addresses: Vec<(NodeId, SocketAddr)>,
    control_address: Option<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum BrokerRequest {
    Command(Box<Command>, Sender<Result<Value, BrokerError>>),
    Connect(NodeId, DuplexStream),
    Stop,
}

impl Broker {
    /// Starts a broker on a thread of its own, and waits until all of its nodes listen.
    ///
    /// # Errors
    /// Invalid settings, a port in use, a data directory that cannot be read.
    pub fn start(settings: Settings, clock: Clock) -> Result<Self, BrokerError> {
        let mut starting = Self::begin(settings, clock, || ())?;
        loop {
            if let Some(broker) = starting.wait_until(Instant::now() + Duration::from_secs(60))? {
                return Ok(broker);
            }
        }
    }

    /// Starts a broker like [`Broker::start`], but does not wait. The broker's thread calls `on_thread` first.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn begin(
        settings: Settings,
        clock: Clock,
        on_thread: impl FnOnce() + Send + 'static,
    ) -> Result<PendingStart, BrokerError> {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (started, listening) = channel();
        let run = move || {
            on_thread();
            run(settings, clock, receiver, &started);
        };
        let thread = std::thread::Builder::new().name("monedula-broker".to_owned()).spawn(run).map_err(no_thread)?;
        let broker = Self { requests, addresses: Vec::new(), control_address: None, thread: Some(thread) };
        Ok(PendingStart { broker: Some(broker), listening })
    }

    /// The address of each node's first listener.
    pub fn addresses(&self) -> &[(NodeId, SocketAddr)] {
        &self.addresses
    }

    /// Carries out a command, and waits for its answer.
    ///
    /// # Errors
    /// A command that cannot be carried out; [`BrokerError::Stopped`].
    pub fn control(&self, command: Command) -> Result<Value, BrokerError> {
        self.command(command).wait()
    }

    /// Carries out a command like [`Broker::control`], but does not wait for its answer.
    pub fn command(&self, command: Command) -> PendingCommand {
        let (sender, receiver) = channel();
        // If the thread has ended, the sender is dropped, and the receiver returns `BrokerError::Stopped`.
        let _ = self.requests.send(BrokerRequest::Command(Box::new(command), sender));
        PendingCommand(receiver)
    }

    /// Connects to a node without a socket. `capacity` is the size in bytes of the buffer in each direction.
    pub fn connect(&self, node: NodeId, capacity: usize) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(capacity);
        // If the thread has ended, the other end is dropped, and reads return the end of the stream.
        let _ = self.requests.send(BrokerRequest::Connect(node, theirs));
        ours
    }

    /// Sets a fault. Returns the handle to it.
    ///
    /// # Errors
    /// Unknown names and invalid numbers; [`BrokerError::Stopped`].
    pub fn fault(&self, fault: Fault) -> Result<FaultHandle<'_>, BrokerError> {
        let id = self.control(Command::Fault { fault })?;
        Ok(FaultHandle { broker: self, id: id["fault"].as_u64().unwrap_or_default() })
    }

    /// The address of the control port, if there is one.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control_address
    }

    /// Closes all connections and listeners, and waits for the broker's thread to end.
    pub fn stop(&mut self) {
        let _ = self.requests.send(BrokerRequest::Stop);
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

/// The addresses that a broker listens on.
#[derive(Debug)]
struct Listening {
    addresses: Vec<(NodeId, SocketAddr)>,
    control_address: Option<SocketAddr>,
}

type Started = Sender<Result<Listening, BrokerError>>;

fn run(settings: Settings, clock: Clock, requests: mpsc::UnboundedReceiver<BrokerRequest>, started: &Started) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(no_thread(error)))),
    };
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        match open(settings, clock).await {
            Ok((shared, listening)) => {
                let _ = started.send(Ok(listening));
                serve(&shared, requests).await;
            }
            Err(error) => drop(started.send(Err(error))),
        }
    });
}

async fn open(settings: Settings, clock: Clock) -> Result<(Shared, Listening), BrokerError> {
    let (topics, control_port) = (settings.topics.clone(), settings.control_port);
    let mut core = Core::new(settings, clock.now_ms())?;
    core.create_missing_topics(&topics)?;
    let encrypted = tls::entrance(&core)?;
    let shared = Shared::new(core, clock, encrypted);
    let addresses = listener::listen_all(&shared).await?;
    let control_address = match control_port {
        Some(port) => Some(control_port::listen(&shared, port).await?),
        None => None,
    };
    tokio::task::spawn_local(shared.clone().keep_time());
    Ok((shared, Listening { addresses, control_address }))
}

async fn serve(shared: &Shared, mut requests: mpsc::UnboundedReceiver<BrokerRequest>) {
    while let Some(request) = requests.recv().await {
        match request {
            BrokerRequest::Command(command, answer) => {
                let shared = shared.clone();
                // A task of its own, so that a command that waits does not delay the others.
                tokio::task::spawn_local(
                    async move { drop(answer.send(commands::carry_out(&shared, *command).await)) },
                );
            }
            BrokerRequest::Connect(node, stream) => {
                let protocol = shared.with(|core, _| core.settings.security.protocol);
                let serving = connection::serve(shared.clone(), node, protocol, stream, "memory".to_owned(), None);
                tokio::task::spawn_local(serving);
            }
            BrokerRequest::Stop => break,
        }
    }
}
