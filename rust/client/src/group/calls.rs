//! Calls of the machine on their way to brokers, each a task of its own that comes back as an event.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::group::classic::{self, CallError, CallId, Lane, Target};
use monedula_engine::group::consumer;
use monedula_protocol::api::ApiKey;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;

use super::machine::Input;
use super::task::{Event, Task};
use crate::error::RequestError;
use crate::net::network::{Network, NodeId, Purpose};
use crate::tasks::caught;

/// A request of a machine on its way, and what its answer is to that machine.
pub(super) trait Question: Send + Sync + 'static {
    type Answer: Send;

    fn lane(&self) -> Lane;
    fn api_key(&self) -> ApiKey;
    fn versions(&self) -> RangeInclusive<i16>;
    /// How long the broker may hold the answer, beyond what is usual.
    fn extra_timeout(&self) -> Duration;
    fn encode(&self, version: i16, correlation_id: i32, client_id: &str) -> Result<Vec<u8>, WireError>;
    fn decode(&self, frame: &[u8], version: i16) -> Result<Self::Answer, WireError>;

    /// Node id, host and port of the coordinator that the answer names.
    fn coordinator(answer: &Self::Answer) -> Option<(i32, &str, i32)>;
    fn answered(id: CallId, outcome: Result<Self::Answer, CallError>) -> Input;
}

macro_rules! question {
    ($protocol:ident, $input:ident, $extra_timeout:expr) => {
        impl Question for $protocol::Call {
            type Answer = $protocol::Answer;

            fn lane(&self) -> Lane {
                self.lane()
            }

            fn api_key(&self) -> ApiKey {
                self.api_key()
            }

            fn versions(&self) -> RangeInclusive<i16> {
                self.versions()
            }

            fn extra_timeout(&self) -> Duration {
                $extra_timeout(self)
            }

            fn encode(&self, version: i16, correlation_id: i32, client_id: &str) -> Result<Vec<u8>, WireError> {
                self.encode(version, correlation_id, Some(client_id))
            }

            fn decode(&self, frame: &[u8], version: i16) -> Result<Self::Answer, WireError> {
                self.decode(frame, version)
            }

            fn coordinator(answer: &Self::Answer) -> Option<(i32, &str, i32)> {
                match answer {
                    $protocol::Answer::FindCoordinator { code: ErrorCode::None, node_id, host, port } => {
                        Some((*node_id, host, *port))
                    }
                    _ => None,
                }
            }

            fn answered(id: CallId, outcome: Result<Self::Answer, CallError>) -> Input {
                Input::$input($protocol::Input::Answer { id, outcome })
            }
        }
    };
}

question!(classic, Classic, classic::Call::extra_timeout);
// Heartbeats are answered at once, whatever has to happen.
question!(consumer, Consumer, |_: &consumer::Call| Duration::ZERO);

impl Task {
    /// Sends a call; exactly one [`Event::Answered`] comes of it.
    pub(super) fn send<Q: Question>(&self, id: CallId, target: Target, call: Q) {
        let (network, coordinators, events) =
            (self.parts.network.clone(), self.parts.coordinators.clone(), self.events.clone());
        tokio::spawn(async move {
            let asked = caught(ask(network, target, call)).await;
            let outcome = asked.unwrap_or_else(|reason| Err(CallError::Lost(reason)));
            // A coordinator may be a broker that metadata does not name yet.
            if let Some((node_id, host, port)) = outcome.as_ref().ok().and_then(Q::coordinator) {
                coordinators.learn(node_id, host, port);
            }
            // The task may be gone; then nobody wants to know.
            let _ = events.send(Event::Answered(Q::answered(id, outcome)));
        });
    }
}

async fn ask<Q: Question>(network: Arc<Network>, target: Target, call: Q) -> Result<Q::Answer, CallError> {
    let node = match target {
        Target::Coordinator { node_id } => NodeId::Broker(node_id),
        Target::Any { attempt } => any(&network, attempt)?,
    };
    let encode = |version, id, client_id: &str| call.encode(version, id, client_id);
    let sent =
        network.call_encoded(node, purpose(call.lane()), call.api_key(), call.versions(), call.extra_timeout(), encode);
    let (frame, version) = sent.await.map_err(lost)?;
    call.decode(frame.as_slice(), version).map_err(|error| CallError::Lost(error.to_string()))
}

/// The n-th of the brokers and addresses that are known.
fn any(network: &Network, attempt: u32) -> Result<NodeId, CallError> {
    let nodes = network.candidates_from(0);
    let turn = (attempt as usize).checked_rem(nodes.len());
    let node = turn.and_then(|turn| nodes.get(turn)).copied();
    node.ok_or_else(|| CallError::Lost("no broker is known".into()))
}

fn purpose(lane: Lane) -> Purpose {
    match lane {
        Lane::Any => Purpose::Control,
        Lane::Join => Purpose::Join,
        Lane::Heartbeat => Purpose::Heartbeat,
        Lane::Offsets => Purpose::Offsets,
    }
}

fn lost(error: RequestError) -> CallError {
    match error {
        RequestError::Fatal(error) => CallError::Never(error.to_string()),
        error => CallError::Lost(error.to_string()),
    }
}
