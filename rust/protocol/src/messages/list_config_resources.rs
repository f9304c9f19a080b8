//! ListConfigResources, API key 74, versions 0-1, flexible from 0 (KIP-1142).
//!
//! 0 is ListClientMetricsResources (KIP-714), and knows of no other type. Types are those of DescribeConfigs.

use crate::wire::api;

api! {
    ListConfigResources, versions 0..=1, flexible 0..;

    /// Asks which resources have configs.
    request ListConfigResourcesRequest<'a> {
        /// The types to list; none for all.
        resource_types: Vec<i8>, 1..;
    }

    /// The resources.
    response ListConfigResourcesResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// The resources.
        config_resources: Vec<ConfigResource<'a>>, 0..;
    }

    /// A resource.
    struct ConfigResource<'a> {
        /// Its name.
        resource_name: &'a str, 0..;
        /// Its type; 16 are client metrics.
        resource_type: i8 = 16, 1.., ignorable;
    }
}
