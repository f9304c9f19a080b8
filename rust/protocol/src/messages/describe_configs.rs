//! DescribeConfigs, API key 32, versions 1-4 (KIP-133; Kafka 4.0 removed 0).
//!
//! From 2 the answer comes before a throttled client is muted (KIP-219). 3 adds types and documentation (KIP-569). 4 is
//! flexible.
//!
//! Types of resources: 2 topic, 4 broker, 8 levels of a broker's log, 16 client metrics (KIP-714), 32 group (KIP-848).
//! Sources of a value (KIP-226): 1 the topic, 2 the broker and 3 all brokers, set while they run; 4 the broker's file,
//! 5 Kafka's default, 6 levels of a broker's log, 7 client metrics, 8 the group.

use crate::wire::api;

api! {
    DescribeConfigs, versions 1..=4, flexible 4..;

    /// Asks for settings.
    request DescribeConfigsRequest<'a> {
        /// Whose.
        resources: Vec<DescribeConfigsResource<'a>>, 0..;
        /// Whether to tell what else a value could come from.
        include_synonyms: bool, 1..;
        /// Whether to tell what the settings mean.
        include_documentation: bool, 3..;
    }

    /// The settings.
    response DescribeConfigsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The resources.
        results: Vec<DescribeConfigsResult<'a>>, 0..;
    }

    /// A resource that is asked about.
    struct DescribeConfigsResource<'a> {
        /// Its type.
        resource_type: i8, 0..;
        /// Its name; a broker's is its id.
        resource_name: &'a str, 0..;
        /// Names of settings; `None` for all.
        configuration_keys: Option<Vec<&'a str>>, 0.., nullable 0..;
    }

    /// A resource's settings.
    struct DescribeConfigsResult<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The resource's type.
        resource_type: i8, 0..;
        /// Its name.
        resource_name: &'a str, 0..;
        /// The settings.
        configs: Vec<DescribeConfigsResourceResult<'a>>, 0..;
    }

    /// A setting.
    struct DescribeConfigsResourceResult<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// Its value; `None` for a secret.
        value: Option<&'a str>, 0.., nullable 0..;
        /// Whether it can't be changed while the broker runs.
        read_only: bool, 0..;
        /// Where the value is from; -1 where that is not told.
        config_source: i8 = -1, 1.., ignorable;
        /// Whether it is a secret.
        is_sensitive: bool, 0..;
        /// What the value could come from, the first that is set being the one that counts.
        synonyms: Vec<DescribeConfigsSynonym<'a>>, 1.., ignorable;
        /// Its type: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password; 0 where that
        /// is not known.
        config_type: i8, 3.., ignorable;
        /// What it means, if that was asked for.
        documentation: Option<&'a str>, 3.., nullable 0.., ignorable;
    }

    /// Something that a value could come from.
    struct DescribeConfigsSynonym<'a> {
        /// The name that the setting has there.
        name: &'a str, 1..;
        /// The value there; `None` for a secret.
        value: Option<&'a str>, 1.., nullable 0..;
        /// The source.
        source: i8, 1..;
    }
}
