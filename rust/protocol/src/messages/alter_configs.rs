//! AlterConfigs, API key 33, versions 0-2, flexible from 2 (KIP-133).
//!
//! The request replaces all configs of a resource: those that it does not name are reset to their defaults.
//! IncrementalAlterConfigs (KIP-339) changes single configs. The types of resources are those of DescribeConfigs.

use crate::wire::api;

api! {
    AlterConfigs, versions 0..=2, flexible 2..;

    /// Replaces all configs of resources.
    request AlterConfigsRequest<'a> {
        resources: Vec<AlterConfigsResource<'a>>, 0..;
        /// True to have the request only validated, without changes.
        validate_only: bool, 0..;
    }

    /// The result for each resource.
    response AlterConfigsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The resources.
        responses: Vec<AlterConfigsResourceResponse<'a>>, 0..;
    }

    /// A resource to change.
    struct AlterConfigsResource<'a> {
        resource_type: i8, 0..;
        /// The resource's name. For brokers this is the broker id, or empty for all brokers.
        resource_name: &'a str, 0..;
        /// The complete configs of the resource; missing ones are reset to their defaults.
        configs: Vec<AlterableConfig<'a>>, 0..;
    }

    /// A config.
    struct AlterableConfig<'a> {
        name: &'a str, 0..;
        value: Option<&'a str>, 0.., nullable 0..;
    }

    /// The result for one resource.
    struct AlterConfigsResourceResponse<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        resource_type: i8, 0..;
        resource_name: &'a str, 0..;
    }
}
