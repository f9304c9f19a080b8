//! The state that the tasks of the broker's thread share: the core, the clock, and the channels to the connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::Clock;
use crate::cluster::NodeId;
use crate::core::Core;
use crate::request::{Action, ConnectionId};
use crate::security::{Principal, SecurityProtocol};

/// A handle to the shared state, cheap to clone. A borrow of the core is never held over an await.
#[derive(Clone, Debug)]
pub(super) struct Shared(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    core: RefCell<Core>,
    clock: Clock,
    replies: RefCell<HashMap<ConnectionId, mpsc::UnboundedSender<Action>>>,
    /// The tasks that accept connections, for each node that listens.
    listeners: RefCell<HashMap<NodeId, Vec<JoinHandle<()>>>>,
    /// The core's next deadline, which [`Shared::keep_time`] sleeps until.
    due_ms: Cell<Option<i64>>,
    earlier: Notify,
    /// The sum of the hits of all faults, for commands that wait for hits.
    hits: watch::Sender<u64>,
    /// The beginning of new encrypted connections.
    encrypted: RefCell<Entrance>,
    /// True if new connections are neither read nor written. A fault.
    silent: Cell<bool>,
    /// The URL of the token endpoint, if it is open.
    token_endpoint: RefCell<Option<String>>,
    token_lifetime_ms: Cell<i64>,
}

/// The first lifetime of the tokens of the token endpoint.
const TOKEN_LIFETIME_MS: i64 = 3_600_000;

/// The beginning of a new connection.
#[derive(Clone)]
pub(super) enum Entrance {
    /// With the first request.
    Plain,
    /// With a TLS handshake.
    Tls(TlsAcceptor),
    /// The node answers nothing: it neither reads nor writes. A fault.
    Silent,
}

impl fmt::Debug for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(_) => "Tls",
            Self::Silent => "Silent",
        })
    }
}

impl Shared {
    pub(super) fn new(core: Core, clock: Clock, encrypted: Entrance) -> Self {
        let due_ms = Cell::new(core.next_due_ms());
        Self(Rc::new(Inner {
            core: RefCell::new(core),
            clock,
            replies: RefCell::default(),
            listeners: RefCell::default(),
            due_ms,
            earlier: Notify::new(),
            hits: watch::Sender::new(0),
            encrypted: RefCell::new(encrypted),
            silent: Cell::new(false),
            token_endpoint: RefCell::default(),
            token_lifetime_ms: Cell::new(TOKEN_LIFETIME_MS),
        }))
    }

    /// The beginning of a connection to a listener of this security protocol.
    pub(super) fn entrance(&self, protocol: SecurityProtocol) -> Entrance {
        match (self.0.silent.get(), protocol.has_tls()) {
            (true, _) => Entrance::Silent,
            (_, true) => self.0.encrypted.borrow().clone(),
            (_, false) => Entrance::Plain,
        }
    }

    /// Has encrypted connections that are accepted from now on begin like this.
    pub(super) fn set_encrypted(&self, entrance: Entrance) {
        self.0.encrypted.replace(entrance);
    }

    /// Has connections that are accepted from now on neither read nor written, or no longer.
    pub(super) fn set_silent(&self, silent: bool) {
        self.0.silent.set(silent);
    }

    pub(super) fn token_endpoint(&self) -> Option<String> {
        self.0.token_endpoint.borrow().clone()
    }

    pub(super) fn set_token_endpoint(&self, url: String) {
        self.0.token_endpoint.replace(Some(url));
    }

    pub(super) fn token_lifetime_ms(&self) -> i64 {
        self.0.token_lifetime_ms.get()
    }

    pub(super) fn set_token_lifetime_ms(&self, lifetime_ms: i64) {
        self.0.token_lifetime_ms.set(lifetime_ms);
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Calls `work` with the core and the time, then sends the core's replies to their connections.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Core, i64) -> T) -> T {
        let mut core = self.0.core.borrow_mut();
        let result = work(&mut core, self.0.clock.now_ms());
        let replies = self.0.replies.borrow();
        for reply in core.drain() {
            if let Some(sender) = replies.get(&reply.connection) {
                // Sending fails if the connection is closing, which then needs no reply.
                let _ = sender.send(reply.action);
            }
        }
        self.0.hits.send_if_modified(|hits| std::mem::replace(hits, core.faults.all_hits()) != *hits);
        let due_ms = core.next_due_ms();
        let sooner = due_ms.is_some_and(|due_ms| self.0.due_ms.get().is_none_or(|before| due_ms < before));
        self.0.due_ms.set(due_ms);
        if sooner {
            self.0.earlier.notify_one();
        }
        result
    }

    pub(super) fn connected(
        &self,
        node: NodeId,
        host: &str,
        protocol: SecurityProtocol,
        principal: Option<Principal>,
    ) -> (ConnectionId, mpsc::UnboundedReceiver<Action>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let id = self.with(|core, now_ms| core.connected_as(now_ms, node, host, protocol, principal));
        self.0.replies.borrow_mut().insert(id, sender);
        (id, receiver)
    }

    pub(super) fn disconnected(&self, connection: ConnectionId) {
        self.0.replies.borrow_mut().remove(&connection);
        self.with(|core, now_ms| core.disconnected(now_ms, connection));
    }

    pub(super) fn request(&self, connection: ConnectionId, frame: Bytes) {
        self.with(|core, now_ms| core.request(now_ms, connection, &frame));
    }

    /// A receiver that is notified whenever the hits of a fault change.
    pub(super) fn watch_hits(&self) -> watch::Receiver<u64> {
        self.0.hits.subscribe()
    }

    pub(super) fn accepts(&self, node: NodeId, accepting: JoinHandle<()>) {
        self.0.listeners.borrow_mut().entry(node).or_default().push(accepting);
    }

    /// Closes a node's ports. When it returns, they can be opened again.
    pub(super) async fn stop_listening(&self, node: NodeId) {
        let accepting = self.0.listeners.borrow_mut().remove(&node);
        for accepting in accepting.into_iter().flatten() {
            accepting.abort();
            let _ = accepting.await;
        }
    }

    /// Advances a manual clock in steps, so that each deadline on the way is handled at its own time. Returns false if
    /// the clock is not manual.
    pub(super) fn advance(&self, by_ms: i64) -> bool {
        let Clock::Manual(clock) = &self.0.clock else { return false };
        let until_ms = self.0.clock.now_ms().saturating_add(by_ms);
        while let Some(due_ms) = self.0.due_ms.get().filter(|due_ms| *due_ms <= until_ms) {
            clock.fetch_max(due_ms, std::sync::atomic::Ordering::Relaxed);
            self.with(|core, now_ms| core.tick(now_ms));
            // A deadline that stays the same after its tick would never end the loop.
            if self.0.due_ms.get() == Some(due_ms) {
                break;
            }
        }
        clock.fetch_max(until_ms, std::sync::atomic::Ordering::Relaxed);
        self.with(|core, now_ms| core.tick(now_ms));
        true
    }

    /// Ticks the core at each of its deadlines.
    pub(super) async fn keep_time(self) {
        loop {
            let wait = match (self.0.due_ms.get(), &self.0.clock) {
                (Some(due_ms), Clock::System { .. }) => Some(due_ms - self.0.clock.now_ms()),
                // The command that advances a manual clock ticks the core.
                _ => None,
            };
            match wait {
                Some(wait_ms) if wait_ms <= 0 => {
                    self.with(|core, now_ms| core.tick(now_ms));
                    tokio::task::yield_now().await;
                }
                Some(wait_ms) => {
                    let wait = Duration::from_millis(wait_ms as u64);
                    // After the timeout, and after a new earlier deadline, the loop computes the wait again.
                    let _ = tokio::time::timeout(wait, self.0.earlier.notified()).await;
                }
                None => self.0.earlier.notified().await,
            }
        }
    }
}
