//! AlterConfigs, API key 33, versions 0-2, flexible from 2 (KIP-133).
//!
//! It replaces all that is set, so what a client does not name goes back to its default; IncrementalAlterConfigs (KIP-339)
//! does not. Types of resources are those of DescribeConfigs.

use crate::wire::api;

api! {
    AlterConfigs, versions 0..=2, flexible 2..;

    /// Replaces all settings.
    request AlterConfigsRequest<'a> {
        /// Whose.
        resources: Vec<AlterConfigsResource<'a>>, 0..;
        /// Whether the request is only checked, and nothing changed.
        validate_only: bool, 0..;
    }

    /// What became of each.
    response AlterConfigsResponse<'a> {
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
        /// All that is to be set.
        configs: Vec<AlterableConfig<'a>>, 0..;
    }

    /// A setting.
    struct AlterableConfig<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its value.
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
