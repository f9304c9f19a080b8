//! A request in the core: its connection, its content, its answer, and what the connection is to do with the answer.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::frame::encode_response;

use crate::cluster::NodeId;
use crate::security::{Principal, SecurityProtocol};

/// The id of a connection in the core.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConnectionId(pub(crate) u64);

impl ConnectionId {
    /// No connection: for requests that the broker itself makes, such as those of the control commands.
    pub(crate) const NONE: Self = Self(0);
}

/// An action for a connection.
#[derive(Debug)]
pub struct Reply {
    /// The connection.
    pub connection: ConnectionId,
    /// The action of the connection.
    pub action: Action,
}

/// An action of a connection on the request that it received last.
#[derive(Debug)]
pub enum Action {
    /// Send this response, a whole frame with its length in several pieces, and read the next request.
    Send(Vec<Bytes>),
    /// Read the next request: this one gets no response (acks=0).
    Nothing,
    /// Close the connection, for this reason.
    Close(String),
    /// Send this response after a number of milliseconds, then close the connection, for this reason. An empty response
    /// sends nothing.
    Refuse(Vec<Bytes>, u64, String),
    /// Send this response, if there is one, with the changes of a fault or the pause of a quota, then read the next
    /// request unless the changes end the connection.
    Wire(Vec<Bytes>, Wire),
    /// Reset the connection.
    Reset,
    /// Stop reading, but keep the connection open until a later action closes it.
    Deaf,
}

impl Action {
    /// The action with a pause before the next request is read.
    pub(crate) fn then_mute(self, pause_ms: u64) -> Self {
        match self {
            action if pause_ms == 0 => action,
            Self::Send(pieces) => Self::Wire(pieces, Wire { pause_ms, ..Wire::default() }),
            Self::Nothing => Self::Wire(Vec::new(), Wire { pause_ms, ..Wire::default() }),
            Self::Wire(pieces, wire) => Self::Wire(pieces, Wire { pause_ms: wire.pause_ms.max(pause_ms), ..wire }),
            action => action,
        }
    }
}

/// Changes by a fault or a quota to the transmission of a response.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Send only this many bytes, then close the connection.
    pub cut_after: Option<usize>,
    /// Send the response in pieces of this many bytes, with a pause of this many milliseconds after each.
    pub fragment: Option<(usize, u64)>,
    /// Wait this many milliseconds before the next request is read.
    pub pause_ms: u64,
}

/// The request whose answer a connection waits for.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Current {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// True if the version is flexible (KIP-482).
    pub(crate) flexible: bool,
}

impl fmt::Display for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, version, correlation_id, .. } = self;
        write!(f, "{key} v{version}, correlation id {correlation_id}")
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The response, a whole frame with its length, in several pieces.
    Now(Vec<Bytes>),
    /// The request waits: its ticket is kept and answered later, with [`Core::answer`](crate::core::Core::answer) or
    /// [`Core::reply`](crate::core::Core::reply).
    Later,
    /// No response is expected (acks=0).
    Nothing,
    /// The connection is closed, as Kafka does with requests that it cannot decode, for this reason.
    Close(String),
    /// The login failed: the response, which may be empty, is sent late, and the connection is closed, for this reason.
    Refused(Vec<Bytes>, String),
}

impl Answer {
    /// Turns a response into that of a login that failed.
    pub(crate) fn late(self, reason: &str) -> Self {
        match self {
            Self::Now(pieces) => Self::Refused(pieces, reason.to_owned()),
            other => other,
        }
    }
}

/// The part of a request that is needed to answer it later. Small, because it is kept while the request waits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) connection: ConnectionId,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The node that received it.
    pub(crate) node: NodeId,
    /// The client's address.
    pub(crate) host: Arc<str>,
    /// The protocol of the listener to which it is connected.
    pub(crate) protocol: SecurityProtocol,
    pub(crate) principal: Principal,
    /// True if it has logged in with a delegation token, which cannot create others.
    pub(crate) by_delegation_token: bool,
}

impl Origin {
    /// A client that has not logged in.
    pub(crate) fn anonymous(node: NodeId, host: &str) -> Self {
        Self {
            node,
            host: host.into(),
            protocol: SecurityProtocol::default(),
            principal: Principal::anonymous(),
            by_delegation_token: false,
        }
    }

    /// True if the client may ask anything about delegation tokens: it has to be authenticated, and not by a token.
    pub(crate) fn may_use_tokens(&self) -> bool {
        let is_authenticated = match self.protocol {
            SecurityProtocol::Plaintext => false,
            SecurityProtocol::Ssl => self.principal != Principal::anonymous(),
            SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl => true,
        };
        is_authenticated && !self.by_delegation_token
    }
}

/// A request that is being carried out.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) ticket: Ticket,
    /// The node that received the request.
    pub(crate) node: NodeId,
    pub(crate) client_id: &'a str,
    pub(crate) origin: &'a Origin,
    /// The frame without its length. [`Bytes::slice_ref`] turns a borrowed field into bytes that can be kept.
    pub(crate) frame: &'a Bytes,
}

impl Call<'_> {
    /// The request as its connection knows it.
    pub(crate) fn current(&self) -> Current {
        let Self { key, version, ticket: Ticket { correlation_id, .. }, .. } = *self;
        Current { key, version, correlation_id, flexible: version >= key.flexible_from() }
    }

    /// Answers the request at once. A response that cannot be encoded closes the connection.
    pub(crate) fn answer<'q, 'r, R: Request<'q>>(&self, response: &R::Response<'r>) -> Answer {
        match encode_response::<R>(response, self.version, self.ticket.correlation_id) {
            Ok(frame) => Answer::Now(vec![frame.into()]),
            Err(error) => Answer::Close(format!("the answer cannot be encoded: {error}")),
        }
    }
}
