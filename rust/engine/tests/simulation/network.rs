//! The requests of members in the network.

use bytes::Bytes;
use monedula_engine::group::{Call, CallId, ConnectionPurpose};

#[path = "../common/network.rs"]
mod connections;

pub(crate) use connections::{Link, Pid};

pub(crate) type Network = connections::Network<ConnectionPurpose, Request>;

/// A request on its way, or at work.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: CallId,
    pub(crate) call: Call,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) frame: Bytes,
}
