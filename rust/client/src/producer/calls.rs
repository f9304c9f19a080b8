//! Sends the session's calls to brokers, each in a task of its own.

use std::sync::Arc;

use monedula_engine::transaction::{Call, CallFailure, CallId, SessionConfig, Target, TransactionResponse};
use tokio::sync::mpsc;

use crate::coordinator::Coordinators;
use crate::error::RequestError;
use crate::net::network::{Network, NodeId, Purpose};
use crate::tasks::caught;

pub(crate) type CallOutcome = (CallId, Result<TransactionResponse, CallFailure>);

#[derive(Clone)]
pub(super) struct Calls {
    pub(super) network: Arc<Network>,
    pub(super) coordinators: Coordinators,
    pub(super) config: Arc<SessionConfig>,
    pub(super) outcomes: mpsc::UnboundedSender<CallOutcome>,
}

impl Calls {
    /// Sends a call. Exactly one outcome follows.
    pub(super) fn send(&self, id: CallId, target: Target, call: Call) {
        let calls = self.clone();
        tokio::spawn(async move {
            let asked = caught(calls.ask(target, &call)).await;
            let outcome = asked.unwrap_or_else(|reason| Err(CallFailure::Lost(reason)));
            // A coordinator may be a broker that metadata does not have yet.
            if let Ok(TransactionResponse::Coordinator { node_id, host, port }) = &outcome {
                calls.coordinators.learn(*node_id, host, *port);
            }
            // Fails only if the driver is gone.
            let _ = calls.outcomes.send((id, outcome));
        });
    }

    async fn ask(&self, target: Target, call: &Call) -> Result<TransactionResponse, CallFailure> {
        match target {
            Target::Coordinator { node_id } => self.ask_node(NodeId::Broker(node_id), call).await,
            Target::Any { attempt } => {
                let answered = self.network.any_of(attempt, |node| self.ask_node(node, call)).await;
                answered.unwrap_or_else(|| Err(CallFailure::Lost("no broker is known".into())))
            }
        }
    }

    async fn ask_node(&self, node: NodeId, call: &Call) -> Result<TransactionResponse, CallFailure> {
        let encode = |version, id, client_id: &str| call.encode(&self.config, version, id, Some(client_id));
        let sent = self.network.call_encoded(
            node,
            // TxnOffsetCommit too: the connection of group members may be busy with requests that the broker holds
            // back.
            Purpose::Control,
            call.api_key(),
            call.versions(),
            std::time::Duration::ZERO,
            encode,
        );
        let (frame, version) = sent.await.map_err(lost)?;
        let decoded = call.decode(&self.config, frame.as_slice(), version);
        decoded.map_err(|error| CallFailure::Lost(error.to_string()))?
    }
}

fn lost(error: RequestError) -> CallFailure {
    match error {
        RequestError::Fatal(error) => CallFailure::Fatal(error.to_string()),
        error => CallFailure::Lost(error.to_string()),
    }
}
