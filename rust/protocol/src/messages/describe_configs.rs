//! DescribeConfigs, API key 32, versions 1-4 (KIP-133; Kafka 4.0 removed 0).
//!
//! Version 2 makes the broker respond before it throttles the client (KIP-219). 3 adds types and documentation
//! (KIP-569). 4 is flexible.
//!
//! Types of resources: 2 topic, 4 broker, 8 log levels of a broker, 16 client metrics (KIP-714), 32 group (KIP-848).
//! Sources of a value (KIP-226): 1 dynamic config of the topic, 2 of the broker, 3 of all brokers; 4 the broker's file,
//! 5 Kafka's default, 6 log levels of a broker, 7 client metrics, 8 the group.

use crate::wire::api;

api! {
    DescribeConfigs, versions 1..=4, flexible 4..;

    /// Describes the configs of resources.
    request DescribeConfigsRequest<'a> {
        resources: Vec<DescribeConfigsResource<'a>>, 0..;
        /// True to include the synonyms of each config: the other sources of its value.
        include_synonyms: bool, 1..;
        /// True to include the documentation of the configs.
        include_documentation: bool, 3..;
    }

    /// The configs.
    response DescribeConfigsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The resources.
        results: Vec<DescribeConfigsResult<'a>>, 0..;
    }

    /// A resource of the request.
    struct DescribeConfigsResource<'a> {
        resource_type: i8, 0..;
        /// The resource's name. For a broker this is the broker id.
        resource_name: &'a str, 0..;
        /// The names of the configs to return; `None` for all.
        configuration_keys: Option<Vec<&'a str>>, 0.., nullable 0..;
    }

    /// The configs of one resource.
    struct DescribeConfigsResult<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        resource_type: i8, 0..;
        resource_name: &'a str, 0..;
        configs: Vec<DescribeConfigsResourceResult<'a>>, 0..;
    }

    /// A config.
    struct DescribeConfigsResourceResult<'a> {
        name: &'a str, 0..;
        /// The value; `None` if it is sensitive.
        value: Option<&'a str>, 0.., nullable 0..;
        /// True if the config is read-only: it cannot be changed while the broker runs.
        read_only: bool, 0..;
        /// The source of the value; -1 if not known.
        config_source: i8 = -1, 1.., ignorable;
        /// True if the value is sensitive, such as a password.
        is_sensitive: bool, 0..;
        /// The synonyms: all sources of the value, in order of precedence.
        synonyms: Vec<DescribeConfigsSynonym<'a>>, 1.., ignorable;
        /// The config's type: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password; 0
        /// where that is not known.
        config_type: i8, 3.., ignorable;
        /// The documentation, if requested.
        documentation: Option<&'a str>, 3.., nullable 0.., ignorable;
    }

    /// A synonym: one source of a config's value.
    struct DescribeConfigsSynonym<'a> {
        /// The config's name in this source.
        name: &'a str, 1..;
        /// The value there; `None` if it is sensitive.
        value: Option<&'a str>, 1.., nullable 0..;
        source: i8, 1..;
    }
}
