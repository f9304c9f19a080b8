//! ListConfigResources, versions 0-1: lists the resources that have configs, by type. In version 0 these are client
//! metrics (KIP-714) only.
//!
//! Not implemented: nothing.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

use super::{Handled, resource};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

type Request<'a> = ListConfigResourcesRequest<'a>;

/// The resource types of version 1, in the order in which Kafka lists them.
const TYPES: [i8; 5] =
    [resource::GROUP, resource::CLIENT_METRICS, resource::BROKER_LOGGER, resource::BROKER, resource::TOPIC];

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::DescribeConfigs, Resource::Cluster)?;
    let wanted: BTreeSet<i8> = match call.version {
        0 => [resource::CLIENT_METRICS].into(),
        _ if request.resource_types.is_empty() => TYPES.into(),
        _ => request.resource_types.iter().copied().collect(),
    };
    if wanted.iter().any(|kind| !TYPES.contains(kind)) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let nodes: Vec<String> = core.nodes.alive().map(|node| node.id.to_string()).collect();
    let mut resources = Vec::new();
    for kind in TYPES.into_iter().filter(|kind| wanted.contains(kind)) {
        let of_kind = |name| ConfigResource { resource_name: name, resource_type: kind, ..Default::default() };
        match kind {
            resource::CLIENT_METRICS => resources.extend(core.client_metrics.names().map(of_kind)),
            resource::GROUP => resources.extend(core.configs.groups().map(of_kind)),
            resource::BROKER | resource::BROKER_LOGGER => resources.extend(nodes.iter().map(|id| of_kind(id))),
            resource::TOPIC => resources.extend(core.topics.all().map(|topic| of_kind(&topic.name))),
            _ => {}
        }
    }
    Ok(call.answer::<Request<'_>>(&ListConfigResourcesResponse { config_resources: resources, ..Default::default() }))
}
