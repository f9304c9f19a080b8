//! IncrementalAlterConfigs, API key 44, versions 0-1 (KIP-339).
//!
//! 1 is flexible. Types of resources are those of DescribeConfigs.

use crate::wire::api;

api! {
    IncrementalAlterConfigs, versions 0..=1, flexible 1..;

    /// Changes some settings, and leaves the others.
    request IncrementalAlterConfigsRequest<'a> {
        /// Whose.
        resources: Vec<AlterConfigsResource<'a>>, 0..;
        /// Whether the request is only checked, and nothing changed.
        validate_only: bool, 0..;
    }

    /// What became of each.
    response IncrementalAlterConfigsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The resources.
        responses: Vec<AlterConfigsResourceResponse<'a>>, 0..;
    }

    /// A resource to change.
    struct AlterConfigsResource<'a> {
        /// Its type.
        resource_type: i8, 0..;
        /// Its name; a broker's is its id, and empty stands for all brokers.
        resource_name: &'a str, 0..;
        /// The changes.
        configs: Vec<AlterableConfig<'a>>, 0..;
    }

    /// A change of a setting.
    struct AlterableConfig<'a> {
        /// The setting's name.
        name: &'a str, 0..;
        /// 0 sets it, 1 takes it back to its default, 2 adds to its list, 3 takes from its list.
        config_operation: i8, 0..;
        /// The value; `None` where it is taken back.
        value: Option<&'a str>, 0.., nullable 0..;
    }

    /// A resource's outcome.
    struct AlterConfigsResourceResponse<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The resource's type.
        resource_type: i8, 0..;
        /// Its name.
        resource_name: &'a str, 0..;
    }
}
