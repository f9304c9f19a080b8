//! A request on its way through the core, and what comes of it.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::frame::encode_response;

use crate::cluster::NodeId;

/// A connection, as the core knows it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConnectionId(pub(crate) u64);

impl ConnectionId {
    /// Nobody's: who asks in the broker's own name.
    pub(crate) const NONE: Self = Self(0);
}

/// What a connection is to do.
#[derive(Debug)]
pub struct Reply {
    /// Which.
    pub connection: ConnectionId,
    /// What.
    pub action: Action,
}

/// What a connection is to do with the request that it sent last.
#[derive(Debug)]
pub enum Action {
    /// Send this, a whole frame with its length in pieces, and read the next request.
    Send(Vec<Bytes>),
    /// Read the next request: this one gets no answer (acks=0).
    Nothing,
    /// Close, for this reason.
    Close(String),
    /// Send this, but as a fault has it; then read the next request unless it says otherwise.
    Wire(Vec<Bytes>, Wire),
    /// Reset the connection.
    Reset,
    /// Read no more, but stay connected until told to close.
    Deaf,
}

/// What a fault does to an answer on its way.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Only so many bytes are sent, and the connection is closed.
    pub cut_after: Option<usize>,
    /// It is sent in pieces of so many bytes, with so many milliseconds between.
    pub fragment: Option<(usize, u64)>,
    /// So many milliseconds pass before the next request is read.
    pub pause_ms: u64,
}

/// The request that a connection waits for.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Current {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// Whether that version is a flexible one (KIP-482).
    pub(crate) flexible: bool,
}

/// What an API made of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A whole frame with its length, in pieces.
    Now(Vec<Bytes>),
    /// The ticket is kept, and will be answered with [`Core::answer`](super::Core::answer) or
    /// [`Core::reply`](super::Core::reply).
    Later,
    /// No answer is expected (acks=0).
    Nothing,
    /// The connection is closed, as Kafka does with what it cannot make sense of.
    Close(String),
}

/// What it takes to answer a request: small, to be kept while it waits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) connection: ConnectionId,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
}

/// A request that is being worked on.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) ticket: Ticket,
    /// The node that was asked.
    pub(crate) node: NodeId,
    pub(crate) client_id: &'a str,
    pub(crate) client_host: &'a Arc<str>,
    /// The frame, without its length. [`Bytes::slice_ref`] makes of a borrowed field bytes that can be kept.
    pub(crate) frame: &'a Bytes,
}

impl Call<'_> {
    /// Answers at once.
    pub(crate) fn answer<'q, 'r, R: Request<'q>>(&self, response: &R::Response<'r>) -> Answer {
        match encode_response::<R>(response, self.version, self.ticket.correlation_id) {
            Ok(frame) => Answer::Now(vec![frame.into()]),
            Err(error) => Answer::Close(format!("the answer cannot be encoded: {error}")),
        }
    }
}
