//! The types of resources that have configs, with Kafka's codes.

use monedula_protocol::error_code::ErrorCode;

use crate::cluster::NodeId;
use crate::error::ApiError;
use crate::request::{Mentions, TopicKey};
use crate::security::Resource;

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// The resource about which the authorizer is asked: configs of brokers belong to the cluster.
pub(super) fn authorized(kind: i8, name: &str) -> Resource<'_> {
    match kind {
        TOPIC => Resource::Topic(name),
        GROUP => Resource::Group(name),
        _ => Resource::Cluster,
    }
}

/// Mentions of a request that names resources by type and name.
pub(super) fn mentions<'a>(resources: impl Iterator<Item = (i8, &'a str)> + Clone) -> Mentions<'a> {
    let named = |kind| resources.clone().filter(move |(of, _)| *of == kind).map(|(_, name)| name);
    Mentions {
        topics: named(TOPIC).map(TopicKey::Name).collect(),
        groups: named(GROUP).collect(),
        ..Default::default()
    }
}

/// Checks that a resource name is the id of the node that received the request: a broker answers for itself only.
///
/// # Errors
/// INVALID_REQUEST with Kafka's message.
pub(super) fn own_node(node: NodeId, name: &str, what: &str) -> Result<(), ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
    let id: i32 = name.parse().map_err(|_| invalid(format!("{what} must be an integer, but it is: {name}")))?;
    if id != node.0 {
        let what = what.to_ascii_lowercase();
        return Err(invalid(format!("Unexpected {what}, expected {node}, but received {name}")));
    }
    Ok(())
}
