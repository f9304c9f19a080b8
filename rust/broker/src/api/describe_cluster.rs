//! DescribeCluster, versions 0-2: describes the brokers.
//!
//! Not implemented: controller endpoints. A request for them gets MISMATCHED_ENDPOINT_TYPE, as from Kafka's brokers.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

use super::{Handled, cluster_operations};
use crate::core::Core;
use crate::request::Call;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeClusterRequest<'_>) -> Handled {
    let unsupported = format!("Unsupported endpoint type {}", request.endpoint_type);
    let refused = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => {
            let message =
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
            Some((ErrorCode::MismatchedEndpointType, message))
        }
        _ => Some((ErrorCode::UnsupportedEndpointType, unsupported.as_str())),
    };
    if let Some((error, message)) = refused {
        let error_message = Some(message);
        let response = DescribeClusterResponse { error_code: error.code(), error_message, ..Default::default() };
        return Ok(call.answer::<DescribeClusterRequest<'_>>(&response));
    }
    let nodes = core.nodes.all().filter(|node| node.alive || request.include_fenced_brokers);
    let brokers = nodes.map(|node| DescribeClusterBroker {
        broker_id: node.id.0,
        host: &node.host,
        port: node.port(call.origin.protocol).into(),
        rack: node.rack.as_deref(),
        is_fenced: !node.alive,
        ..Default::default()
    });
    let operations = request.include_cluster_authorized_operations.then(|| cluster_operations(core, call));
    Ok(call.answer::<DescribeClusterRequest<'_>>(&DescribeClusterResponse {
        cluster_id: &core.settings.cluster_id,
        controller_id: core.nodes.controller().map_or(-1, |node| node.0),
        brokers: brokers.collect(),
        cluster_authorized_operations: operations.unwrap_or(i32::MIN),
        ..Default::default()
    }))
}

pub(super) fn refuse<'a>(_request: &DescribeClusterRequest<'a>, error: ErrorCode) -> DescribeClusterResponse<'a> {
    let error_message = Some(error.name());
    DescribeClusterResponse { error_code: error.code(), error_message, ..Default::default() }
}
