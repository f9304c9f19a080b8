//! Sending the requests of the member to brokers, each in a task of its own that returns the answer as an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use monedula_engine::group::{Call, CallError, CallId, ConnectionPurpose, GroupResponse, Target};
use monedula_protocol::error_code::ErrorCode;
use tokio::sync::oneshot;

use super::request_order::Turn;
use super::task::{Event, Task};
use crate::base::ClientBase;
use crate::error::RequestError;
use crate::net::network::{Awaited, Network, NodeId, Purpose};
use crate::tasks::caught;

impl Task {
    /// Sends a request in a task of its own, which sends exactly one [`Event::Answered`].
    pub(super) fn send(&mut self, id: CallId, target: Target, call: Call) {
        let (base, events) = (self.parts.base.clone(), self.events.clone());
        let (cancel, cancelled) = oneshot::channel();
        self.calls.insert(id, cancel);
        // The turn is taken before the task is spawned, for tasks begin in any order.
        let turn = self.request_order.next(target, call.purpose());
        tokio::spawn(async move {
            let outcome = answer_of(&base, cancelled, target, call, turn).await;
            // The membership's task may have ended; the answer is dropped then.
            let _ = events.send(Event::Answered { id, outcome });
        });
    }
}

/// Sends a member's request and waits for its answer, or until it is cancelled, and learns of the coordinator.
pub(crate) async fn answer_of(
    base: &ClientBase,
    cancelled: oneshot::Receiver<()>,
    target: Target,
    call: Call,
    turn: Turn,
) -> Result<GroupResponse, CallError> {
    let outcome = ask_until(cancelled, base.network.clone(), target, call, turn).await;
    // The coordinator may be a broker that the metadata does not contain yet.
    if let Ok(GroupResponse::FindCoordinator { code: ErrorCode::None, node_id, host, port }) = &outcome {
        base.coordinators.learn(*node_id, host, *port);
    }
    outcome
}

/// Sends a request and waits for its answer, or until it is cancelled. A request that is still waiting for its
/// connection then is not sent any more.
async fn ask_until(
    cancelled: oneshot::Receiver<()>,
    network: Arc<Network>,
    target: Target,
    call: Call,
    turn: Turn,
) -> Result<GroupResponse, CallError> {
    let is_sent = AtomicBool::new(false);
    let outcome = tokio::select! {
        biased;
        Ok(()) = cancelled => Err(CallError::Lost("it was cancelled".into())),
        asked = caught(ask(&network, target, &call, turn, &is_sent)) => {
            asked.unwrap_or_else(|reason| Err(CallError::Lost(reason)))
        }
    };
    outcome.map_err(|error| match error {
        CallError::Lost(reason) if !is_sent.load(Ordering::Relaxed) => CallError::Unsent(reason),
        error => error,
    })
}

/// `is_sent` is set when the request is handed to a connection.
async fn ask(
    network: &Network,
    target: Target,
    call: &Call,
    turn: Turn,
    is_sent: &AtomicBool,
) -> Result<GroupResponse, CallError> {
    let over = turn.comes().await;
    let encode = |version, id, client_id: &str| {
        is_sent.store(true, Ordering::Relaxed);
        call.encode(version, id, Some(client_id))
    };
    let node = match target {
        Target::Coordinator { node_id } => NodeId::Broker(node_id),
        Target::Any { attempt } => {
            drop(over);
            let ask = |node| {
                let api = (call.api_key(), call.versions());
                async move {
                    let sent = network.send(node, purpose(call.purpose()), api, true, call.extra_timeout(), encode);
                    read(call, sent.await.map_err(lost)?).await
                }
            };
            let answered = network.any_of(attempt, ask).await;
            return answered.unwrap_or_else(|| Err(CallError::Lost("no broker is known".into())));
        }
    };
    let api = (call.api_key(), call.versions());
    let sent = network.send(node, purpose(call.purpose()), api, true, call.extra_timeout(), encode).await;
    drop(over);
    read(call, sent.map_err(lost)?).await
}

async fn read(call: &Call, awaited: Awaited) -> Result<GroupResponse, CallError> {
    let (frame, version) = awaited.answer().await.map_err(lost)?;
    call.decode(frame.as_slice(), version).map_err(|error| CallError::Lost(error.to_string()))
}

fn purpose(of: ConnectionPurpose) -> Purpose {
    match of {
        ConnectionPurpose::Any => Purpose::Control,
        ConnectionPurpose::JoinGroup => Purpose::Join,
        ConnectionPurpose::Heartbeat => Purpose::Heartbeat,
        ConnectionPurpose::Offsets => Purpose::Offsets,
    }
}

fn lost(error: RequestError) -> CallError {
    match error {
        RequestError::Fatal(error) => CallError::Never(error.to_string()),
        error => CallError::Lost(error.to_string()),
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
