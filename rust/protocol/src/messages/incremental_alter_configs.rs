//! IncrementalAlterConfigs, API key 44, versions 0-1 (KIP-339).
//!
//! Version 1 is flexible. Types of resources are those of DescribeConfigs.

use crate::wire::api;

api! {
    IncrementalAlterConfigs, versions 0..=1, flexible 1..;

    /// Changes single configs, and leaves the others as they are.
    request IncrementalAlterConfigsRequest<'a> {
        resources: Vec<AlterConfigsResource<'a>>, 0..;
        /// True to have the request only validated, without changes.
        validate_only: bool, 0..;
    }

    /// The result for each resource.
    response IncrementalAlterConfigsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The resources.
        responses: Vec<AlterConfigsResourceResponse<'a>>, 0..;
    }

    /// A resource to change.
    struct AlterConfigsResource<'a> {
        resource_type: i8, 0..;
        /// The resource's name. For brokers this is the broker id, or empty for all brokers.
        resource_name: &'a str, 0..;
        /// The changes.
        configs: Vec<AlterableConfig<'a>>, 0..;
    }

    /// The change of one config.
    struct AlterableConfig<'a> {
        name: &'a str, 0..;
        /// The operation: 0 sets the value, 1 resets it to the default, 2 appends to a list, 3 removes from a list.
        config_operation: i8, 0..;
        /// The value; `None` to reset it to the default.
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
