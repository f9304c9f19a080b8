//! The core behind TCP: one thread that owns it, and all connections on that thread.
//!
//! [`Broker::start`] returns when every node listens. Commands reach the thread over a channel; each is answered.

mod clock;
mod commands;
mod connection;
mod control_port;
mod fault_handle;
mod listener;
mod shared;
mod starting;

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
pub use starting::{Answering, Starting};

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
    requests: mpsc::UnboundedSender<Request>,
    addresses: Vec<(NodeId, SocketAddr)>,
    control_address: Option<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Request {
    Command(Box<Command>, Sender<Result<Value, BrokerError>>),
    Connect(NodeId, DuplexStream),
    Stop,
}

impl Broker {
    /// Starts a broker on a thread of its own, and waits until all of its nodes listen.
    ///
    /// # Errors
    /// Settings that cannot be, a port in use, a data directory that cannot be read.
    pub fn start(settings: Settings, clock: Clock) -> Result<Self, BrokerError> {
        let mut starting = Self::begin(settings, clock, || ())?;
        loop {
            if let Some(broker) = starting.wait_until(Instant::now() + Duration::from_secs(60))? {
                return Ok(broker);
            }
        }
    }

    /// The same without the wait. `on_thread` is the first that the broker's thread does.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn begin(
        settings: Settings,
        clock: Clock,
        on_thread: impl FnOnce() + Send + 'static,
    ) -> Result<Starting, BrokerError> {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (started, listening) = channel();
        let run = move || {
            on_thread();
            run(settings, clock, receiver, &started);
        };
        let thread = std::thread::Builder::new().name("monedula-broker".to_owned()).spawn(run).map_err(no_thread)?;
        let broker = Self { requests, addresses: Vec::new(), control_address: None, thread: Some(thread) };
        Ok(Starting { broker: Some(broker), listening })
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
        self.command(command).wait()
    }

    /// The same without the wait.
    pub fn command(&self, command: Command) -> Answering {
        let (sender, receiver) = channel();
        // If the thread is gone, so is the sender, and whoever waits is told.
        let _ = self.requests.send(Request::Command(Box::new(command), sender));
        Answering(receiver)
    }

    /// Connects to a node without a socket. `capacity` is how many bytes each way can be on their way.
    pub fn connect(&self, node: NodeId, capacity: usize) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(capacity);
        // If the thread is gone the other end is dropped, and whoever reads finds that out.
        let _ = self.requests.send(Request::Connect(node, theirs));
        ours
    }

    /// Sets a fault, and gives the handle to it.
    ///
    /// # Errors
    /// Names and numbers that cannot be; [`BrokerError::Stopped`].
    pub fn fault(&self, fault: Fault) -> Result<FaultHandle<'_>, BrokerError> {
        let id = self.control(Command::Fault { fault })?;
        Ok(FaultHandle { broker: self, id: id["fault"].as_u64().unwrap_or_default() })
    }

    /// Where the control port is, if there is one.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control_address
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

/// Where a broker listens.
#[derive(Debug)]
struct Listening {
    addresses: Vec<(NodeId, SocketAddr)>,
    control_address: Option<SocketAddr>,
}

type Started = Sender<Result<Listening, BrokerError>>;

fn run(settings: Settings, clock: Clock, requests: mpsc::UnboundedReceiver<Request>, started: &Started) {
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
    let shared = Shared::new(core, clock);
    let addresses = listener::listen_all(&shared).await?;
    let control_address = match control_port {
        Some(port) => Some(control_port::listen(&shared, port).await?),
        None => None,
    };
    tokio::task::spawn_local(shared.clone().keep_time());
    Ok((shared, Listening { addresses, control_address }))
}

async fn serve(shared: &Shared, mut requests: mpsc::UnboundedReceiver<Request>) {
    while let Some(request) = requests.recv().await {
        match request {
            Request::Command(command, answer) => {
                let shared = shared.clone();
                // One that waits keeps no other from being carried out.
                tokio::task::spawn_local(
                    async move { drop(answer.send(commands::carry_out(&shared, *command).await)) },
                );
            }
            Request::Connect(node, stream) => {
                let serving = connection::serve(shared.clone(), node, stream, "memory".to_owned());
                tokio::task::spawn_local(serving);
            }
            Request::Stop => break,
        }
    }
}
