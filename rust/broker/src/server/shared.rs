//! The core, and the connections that wait for what it says: shared by the tasks of one thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use super::Clock;
use crate::cluster::NodeId;
use crate::core::{Action, ConnectionId, Core};

/// What the tasks of one broker share; cheap to clone. A borrow never lasts over an await.
#[derive(Clone, Debug)]
pub(super) struct Shared(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    core: RefCell<Core>,
    clock: Clock,
    replies: RefCell<HashMap<ConnectionId, mpsc::UnboundedSender<Action>>>,
    /// Who accepts connections for each node.
    listeners: RefCell<HashMap<NodeId, JoinHandle<()>>>,
    /// What the timekeeper sleeps until.
    due_ms: Cell<Option<i64>>,
    earlier: Notify,
    /// The hits of all faults, for those who wait for one.
    hits: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(core: Core, clock: Clock) -> Self {
        let due_ms = Cell::new(core.next_due_ms());
        Self(Rc::new(Inner {
            core: RefCell::new(core),
            clock,
            replies: RefCell::default(),
            listeners: RefCell::default(),
            due_ms,
            earlier: Notify::new(),
            hits: watch::Sender::new(0),
        }))
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Lets the core work, and passes on what it says.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Core, i64) -> T) -> T {
        let mut core = self.0.core.borrow_mut();
        let result = work(&mut core, self.0.clock.now_ms());
        let replies = self.0.replies.borrow();
        for reply in core.drain() {
            if let Some(sender) = replies.get(&reply.connection) {
                // A connection that is closing does not listen any more.
                let _ = sender.send(reply.action);
            }
        }
        self.0.hits.send_if_modified(|hits| std::mem::replace(hits, core.fault_hits()) != *hits);
        let due_ms = core.next_due_ms();
        let sooner = due_ms.is_some_and(|due_ms| self.0.due_ms.get().is_none_or(|before| due_ms < before));
        self.0.due_ms.set(due_ms);
        if sooner {
            self.0.earlier.notify_one();
        }
        result
    }

    pub(super) fn connected(&self, node: NodeId, host: &str) -> (ConnectionId, mpsc::UnboundedReceiver<Action>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let id = self.with(|core, now_ms| core.connected(now_ms, node, host));
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

    /// Changes whenever the hits of a fault do.
    pub(super) fn watch_hits(&self) -> watch::Receiver<u64> {
        self.0.hits.subscribe()
    }

    pub(super) fn accepts(&self, node: NodeId, accepting: JoinHandle<()>) {
        self.0.listeners.borrow_mut().insert(node, accepting);
    }

    /// Closes a node's port; when this returns it can be listened on again.
    pub(super) async fn stop_listening(&self, node: NodeId) {
        let accepting = self.0.listeners.borrow_mut().remove(&node);
        if let Some(accepting) = accepting {
            accepting.abort();
            let _ = accepting.await;
        }
    }

    /// Moves a manual clock, and does what falls due on the way at its own time.
    pub(super) fn advance(&self, by_ms: i64) -> bool {
        let Clock::Manual(clock) = &self.0.clock else { return false };
        let until_ms = self.0.clock.now_ms().saturating_add(by_ms);
        while let Some(due_ms) = self.0.due_ms.get().filter(|due_ms| *due_ms <= until_ms) {
            clock.fetch_max(due_ms, std::sync::atomic::Ordering::Relaxed);
            self.with(|core, now_ms| core.tick(now_ms));
            // Whatever is due at the same time after its own tick would be for ever.
            if self.0.due_ms.get() == Some(due_ms) {
                break;
            }
        }
        clock.fetch_max(until_ms, std::sync::atomic::Ordering::Relaxed);
        self.with(|core, now_ms| core.tick(now_ms));
        true
    }

    /// Calls the core whenever something is due.
    pub(super) async fn keep_time(self) {
        loop {
            let wait = match (self.0.due_ms.get(), &self.0.clock) {
                (Some(due_ms), Clock::System { .. }) => Some(due_ms - self.0.clock.now_ms()),
                // A manual clock is moved by a command, which does what is due.
                _ => None,
            };
            match wait {
                Some(wait_ms) if wait_ms <= 0 => {
                    self.with(|core, now_ms| core.tick(now_ms));
                    tokio::task::yield_now().await;
                }
                Some(wait_ms) => {
                    let wait = Duration::from_millis(wait_ms as u64);
                    // Either way the loop looks again at what is due.
                    let _ = tokio::time::timeout(wait, self.0.earlier.notified()).await;
                }
                None => self.0.earlier.notified().await,
            }
        }
    }
}
