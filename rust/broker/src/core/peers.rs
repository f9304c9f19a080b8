//! The connected clients, the request that each waits for, and the log lines of the answers.

use std::collections::BTreeMap;
use std::fmt;

use monedula_protocol::api::ApiKey;
use serde_json::{Value, json};

use super::exchanges::{Exchanges, errors_in_words};
use crate::cluster::NodeId;
use crate::request::{Action, ConnectionId, Current, Origin};
use crate::security::{Login, Principal, SaslExchange, SecurityProtocol};

#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<ConnectionId, Peer>,
    last: u64,
    exchanges: Exchanges,
}

/// A connection, and what is known of its client.
#[derive(Debug)]
struct Peer {
    origin: Origin,
    since_ms: i64,
    /// The client id of the last request.
    client_id: Box<str>,
    requests: u64,
    current: Option<Current>,
    login: Login,
    /// The time for which the connection is not read after its next answer.
    mute_ms: u64,
}

impl Peers {
    pub(super) fn connected(&mut self, origin: Origin, login: Login, now_ms: i64) -> ConnectionId {
        self.last += 1;
        let id = ConnectionId(self.last);
        let peer =
            Peer { origin, since_ms: now_ms, client_id: Box::default(), requests: 0, current: None, login, mute_ms: 0 };
        self.peers.insert(id, peer);
        id
    }

    pub(super) fn disconnected(&mut self, id: ConnectionId) {
        self.peers.remove(&id);
    }

    pub(super) fn origin(&self, id: ConnectionId) -> Option<Origin> {
        self.peers.get(&id).map(|peer| peer.origin.clone())
    }

    /// The principal and the client id of a connection's client.
    pub(crate) fn client(&self, id: ConnectionId) -> Option<(&Principal, &str)> {
        self.peers.get(&id).map(|peer| (&peer.origin.principal, &*peer.client_id))
    }

    /// The security protocol of a connection's listener.
    pub(crate) fn protocol(&self, id: ConnectionId) -> SecurityProtocol {
        self.peers.get(&id).map_or_else(SecurityProtocol::default, |peer| peer.origin.protocol)
    }

    /// Has a connection not read for so long after its next answer (KIP-219).
    pub(crate) fn mute(&mut self, id: ConnectionId, ms: u64) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.mute_ms = peer.mute_ms.max(ms);
        }
    }

    /// The time for which a connection is not read after its answer, which is told once.
    pub(super) fn take_mute_ms(&mut self, id: ConnectionId) -> u64 {
        self.peers.get_mut(&id).map_or(0, |peer| std::mem::take(&mut peer.mute_ms))
    }

    /// The state of a connection's login; `None` if the connection has ended.
    pub(crate) fn login(&self, id: ConnectionId) -> Option<&Login> {
        self.peers.get(&id).map(|peer| &peer.login)
    }

    pub(crate) fn set_login(&mut self, id: ConnectionId, login: Login) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.login = login;
        }
    }

    /// Takes the mechanism that is at work on the connection, if one is. Until it is put back, the login has failed.
    pub(crate) fn take_exchange(&mut self, id: ConnectionId) -> Option<Box<SaslExchange>> {
        let login = &mut self.peers.get_mut(&id)?.login;
        match std::mem::replace(login, Login::Failed) {
            Login::Exchange(exchange) => Some(exchange),
            other => {
                *login = other;
                None
            }
        }
    }

    pub(crate) fn set_principal(&mut self, id: ConnectionId, principal: Principal, by_delegation_token: bool) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.origin.principal = principal;
            peer.origin.by_delegation_token = by_delegation_token;
        }
    }

    /// Ends the sessions of all clients that have logged in, or of one principal's. Returns how many.
    pub(crate) fn expire_sessions(&mut self, of: Option<&Principal>, now_ms: i64) -> usize {
        let mut expired = 0;
        for peer in self.peers.values_mut() {
            if let Login::Done(session) = &mut peer.login
                && of.is_none_or(|principal| session.principal == *principal)
            {
                session.expires_ms = Some(now_ms - 1);
                expired += 1;
            }
        }
        expired
    }

    pub(super) fn asked(&mut self, id: ConnectionId, client_id: &str, current: Current, now_ms: i64) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // A request that a fault delayed passes here twice, and counts once.
        if peer.current.is_none() {
            peer.requests += 1;
            self.exchanges.asked(now_ms, (id, &peer.origin), client_id, current);
        }
        peer.current = Some(current);
        if *peer.client_id != *client_id {
            peer.client_id = client_id.into();
        }
    }

    pub(super) fn current(&self, id: ConnectionId) -> Option<Current> {
        self.peers.get(&id)?.current
    }

    /// Records the answer to a connection's request, with the faults that took effect on the two.
    pub(super) fn answered(&mut self, id: ConnectionId, action: &Action, now_ms: i64, faults: Vec<u64>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(current) = peer.current.take() else { return };
        self.exchanges.answered(now_ms, id, action, faults);
        let (node, client_id) = (peer.origin.node, &peer.client_id);
        let what = format_args!("node {node}: answer to {current}");
        match action {
            Action::Send(pieces) | Action::Wire(pieces, _) => {
                let bytes: usize = pieces.iter().map(bytes::Bytes::len).sum();
                // The errors are read in the answer as it is sent: a fault may have changed it.
                log::debug!("{what}, client {client_id:?}: {bytes} bytes{}", errors_in_words(current, pieces));
                if log::log_enabled!(log::Level::Trace) && !has_secrets(current.key) {
                    log::trace!("{what}: {}", Hex(&pieces.concat()));
                }
            }
            Action::Nothing => log::debug!("{what}, client {client_id:?}: none"),
            Action::Refuse(..) => log::debug!("{what}, client {client_id:?}: the login is refused"),
            Action::Close(_) | Action::Reset | Action::Deaf => {
                log::debug!("{what}, client {client_id:?}: none, the connection ends")
            }
        }
    }

    /// The last requests with their answers as JSON, for the control command that lists them.
    pub(crate) fn describe_exchanges(&self) -> Value {
        self.exchanges.describe()
    }

    /// All connections as JSON, for the control command that lists them.
    pub(crate) fn describe(&self) -> Value {
        let one = |(id, peer): (&ConnectionId, &Peer)| {
            json!({
                "id": id.0,
                "node": peer.origin.node,
                "host": &*peer.origin.host,
                "principal": peer.origin.principal.as_str(),
                "client_id": &*peer.client_id,
                "connected_at_ms": peer.since_ms,
                "requests": peer.requests,
                "waits_for": peer.current.map(|current| current.key.name()),
            })
        };
        self.peers.iter().map(one).collect()
    }

    /// The connections to a node.
    pub(super) fn at(&self, node: NodeId) -> Vec<ConnectionId> {
        self.peers.iter().filter(|(_, peer)| peer.origin.node == node).map(|(id, _)| *id).collect()
    }
}

/// True if requests or responses of an API have passwords, keys or tokens, which must not get into a log.
pub(crate) fn has_secrets(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::SaslAuthenticate
            | ApiKey::AlterUserScramCredentials
            | ApiKey::CreateDelegationToken
            | ApiKey::RenewDelegationToken
            | ApiKey::ExpireDelegationToken
            | ApiKey::DescribeDelegationToken
    )
}

/// Displays bytes in hexadecimal.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
