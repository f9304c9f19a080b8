//! ListConfigResources, API key 74, versions 0-1, flexible from 0 (KIP-1142).
//!
//! Version 0 is ListClientMetricsResources (KIP-714), and lists client metrics only. The types are those of
//! DescribeConfigs.

use crate::wire::api;

api! {
    ListConfigResources, versions 0..=1, flexible 0..;

    /// Lists the resources that have configs.
    request ListConfigResourcesRequest<'a> {
        /// The types to list; empty for all.
        resource_types: Vec<i8>, 1..;
    }

    /// The resources.
    response ListConfigResourcesResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        config_resources: Vec<ConfigResource<'a>>, 0..;
    }

    /// A resource.
    struct ConfigResource<'a> {
        resource_name: &'a str, 0..;
        /// The resource's type; 16 is client metrics.
        resource_type: i8 = 16, 1.., ignorable;
    }
}
