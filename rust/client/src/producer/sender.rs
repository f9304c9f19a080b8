//! Produce requests on their way to brokers, as Java's Sender has them. For each broker one task sends requests in the
//! order in which they were made, since sequence numbers rely on it, and another one awaits their answers in the same
//! order, since the futures of a partition's records rely on that.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use monedula_engine::produce::RequestFailure;
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::messages::produce::ProduceRequest;
use tokio::sync::mpsc;

use super::request::{OutgoingRequest, RequestOutcome, failure};
use crate::net::connection::Connection;
use crate::net::metadata::Metadata;
use crate::net::network::{Awaited, Network, NodeId, Purpose};
use crate::tasks::caught;

/// The sender of each broker that requests were sent to.
pub(crate) struct Senders {
    network: Arc<Network>,
    metadata: Arc<Metadata>,
    outcomes: mpsc::UnboundedSender<RequestOutcome>,
    by_broker: BTreeMap<i32, mpsc::UnboundedSender<OutgoingRequest>>,
}

impl Senders {
    pub(crate) fn new(
        network: Arc<Network>,
        metadata: Arc<Metadata>,
        outcomes: mpsc::UnboundedSender<RequestOutcome>,
    ) -> Self {
        Self { network, metadata, outcomes, by_broker: BTreeMap::new() }
    }

    /// Sends a request to a broker, after those that were sent to it before.
    pub(crate) fn send(&mut self, broker: i32, request: OutgoingRequest) {
        let sender = self.by_broker.entry(broker).or_insert_with(|| {
            let (sender, requests) = mpsc::unbounded_channel();
            tokio::spawn(run(self.network.clone(), self.metadata.clone(), broker, requests, self.outcomes.clone()));
            sender
        });
        // The task ends only when this channel is closed.
        let _ = sender.send(request);
    }
}

async fn run(
    network: Arc<Network>,
    metadata: Arc<Metadata>,
    broker: i32,
    mut requests: mpsc::UnboundedReceiver<OutgoingRequest>,
    outcomes: mpsc::UnboundedSender<RequestOutcome>,
) {
    let (in_flight, unanswered) = mpsc::unbounded_channel();
    tokio::spawn(await_answers(unanswered, outcomes));
    let mut watched = Weak::new();
    while let Some(request) = requests.recv().await {
        let request = Arc::new(request);
        let encode = {
            let request = request.clone();
            move |version: i16, id: i32, client_id: &str| request.encode(version, id, client_id)
        };
        let api = (ApiKey::Produce, *ProduceRequest::VERSIONS.start()..=request.last_version());
        let (node, is_answered) = (NodeId::Broker(broker), request.acks != 0);
        let sent = caught(network.send(node, Purpose::Produce, api, is_answered, Duration::ZERO, encode)).await;
        let sent = match sent {
            Ok(sent) => sent.map_err(|error| failure(error, RequestFailure::NotSent)),
            // After a panic the request may have been sent.
            Err(reason) => Err(RequestFailure::Lost(reason)),
        };
        if let Ok(sent) = &sent
            && request.acks == 0
        {
            refresh_when_closed(sent, &mut watched, &metadata);
        }
        // Fails only if the driver is gone, which needs no outcomes.
        let _ = in_flight.send((request, sent));
    }
}

/// With acks 0 a broker that is not the leader sends no answer: it closes the connection. Requests metadata then,
/// because all following requests would be lost as well.
fn refresh_when_closed(sent: &Awaited, watched: &mut Weak<Connection>, metadata: &Arc<Metadata>) {
    let connection = Arc::downgrade(sent.connection());
    if connection.ptr_eq(watched) {
        return;
    }
    let (ended, metadata) = (sent.connection().ended(), metadata.clone());
    tokio::spawn(async move {
        ended.await;
        metadata.want();
    });
    *watched = connection;
}

/// Awaits answers in the order of their requests.
async fn await_answers(
    mut unanswered: mpsc::UnboundedReceiver<(Arc<OutgoingRequest>, Result<Awaited, RequestFailure>)>,
    outcomes: mpsc::UnboundedSender<RequestOutcome>,
) {
    while let Some((request, sent)) = unanswered.recv().await {
        let outcome = match sent {
            Ok(sent) => caught(request.answer(sent)).await.unwrap_or_else(|reason| request.lost(reason)),
            Err(failure) => request.failed(failure),
        };
        if outcomes.send(outcome).is_err() {
            return;
        }
    }
}
