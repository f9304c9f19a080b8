//! DescribeCluster, API key 60, versions 0-2 (KIP-700).
//!
//! All versions are flexible. 1 adds the type of endpoints (KIP-919), and may return MISMATCHED_ENDPOINT_TYPE or
//! UNSUPPORTED_ENDPOINT_TYPE. 2 adds fenced brokers (KIP-1073).

use crate::wire::api;

api! {
    DescribeCluster, versions 0..=2, flexible 0..;

    /// Describes the cluster's nodes.
    request DescribeClusterRequest<'a> {
        /// True to include the operations that the client is authorized to perform on the cluster.
        include_cluster_authorized_operations: bool, 0..;
        /// The endpoint type: 1 brokers, 2 controllers.
        endpoint_type: i8 = 1, 1..;
        /// True to include fenced brokers.
        include_fenced_brokers: bool, 2..;
    }

    /// The nodes.
    response DescribeClusterResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        /// The endpoint type of the nodes: 1 brokers, 2 controllers.
        endpoint_type: i8 = 1, 1..;
        cluster_id: &'a str, 0..;
        /// The id of the active controller, or -1. A broker returns any live broker's id instead.
        controller_id: i32 = -1, 0..;
        /// The nodes.
        brokers: Vec<DescribeClusterBroker<'a>>, 0..;
        /// The operations that the client is authorized to perform on the cluster, a bit for each; `i32::MIN` if not
        /// requested.
        cluster_authorized_operations: i32 = i32::MIN, 0..;
    }

    /// A node.
    struct DescribeClusterBroker<'a> {
        /// The node's id.
        broker_id: i32, 0..;
        /// The node's advertised host.
        host: &'a str, 0..;
        /// The node's advertised port.
        port: i32, 0..;
        /// The node's rack, if it has one.
        rack: Option<&'a str> = None, 0.., nullable 0..;
        /// True if the broker is fenced.
        is_fenced: bool, 2..;
    }
}
