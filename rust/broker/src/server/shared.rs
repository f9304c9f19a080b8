//! The core, and the connections that wait for what it says: shared by the tasks of one thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use super::Clock;
use crate::BrokerError;
use crate::cluster::NodeId;
use crate::control::Command;
use crate::core::{Action, ConnectionId, Core};

/// What the tasks of one broker share; cheap to clone. A borrow never lasts over an await.
#[derive(Clone, Debug)]
pub(super) struct Shared(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    core: RefCell<Core>,
    clock: Clock,
    replies: RefCell<HashMap<ConnectionId, mpsc::UnboundedSender<Action>>>,
    /// What the timekeeper sleeps until.
    due_ms: Cell<Option<i64>>,
    earlier: Notify,
}

impl Shared {
    pub(super) fn new(core: Core, clock: Clock) -> Self {
        let due_ms = Cell::new(core.next_due_ms());
        Self(Rc::new(Inner {
            core: RefCell::new(core),
            clock,
            replies: RefCell::default(),
            due_ms,
            earlier: Notify::new(),
        }))
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

    pub(super) fn request(&self, connection: ConnectionId, frame: &Bytes) {
        self.with(|core, now_ms| core.request(now_ms, connection, frame));
    }

    pub(super) fn control(&self, command: Command) -> Result<Value, BrokerError> {
        self.with(|core, now_ms| core.control(now_ms, command))
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
