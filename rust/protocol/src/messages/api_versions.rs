//! ApiVersions, API key 18, versions 0-5.
//!
//! 1 adds the throttle time. 3 is flexible, and adds the client's software to the request and features
//! to the response. 4 lets a feature's lowest version be 0. 5 tells which cluster and node the client takes the broker for,
//! which answers REBOOTSTRAP_REQUIRED if it is another (KIP-1242).
//!
//! A broker that does not know the version answers in version 0 with UNSUPPORTED_VERSION and its own
//! versions (KIP-511); the response's header is always version 0.

use crate::wire::api;

api! {
    ApiVersions, versions 0..=5, flexible 3..;

    /// Asks which versions the broker speaks.
    request ApiVersionsRequest<'a> {
        /// The client's name; brokers accept letters, digits, dots and dashes only.
        client_software_name: &'a str, 3.., ignorable;
        /// The client's version, of the same characters.
        client_software_version: &'a str, 3.., ignorable;
        /// The cluster that the client means; with a node, or neither.
        cluster_id: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The node that the client means, or -1.
        node_id: i32 = -1, 5.., ignorable;
    }

    /// What the broker speaks.
    response ApiVersionsResponse<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// Every API of the broker.
        api_keys: Vec<ApiVersion<'a>>, 0..;
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// Features that the broker could take part in.
        supported_features: Vec<SupportedFeatureKey<'a>>, 3.., tag 0, ignorable;
        /// Grows with each change of the finalized features; -1 where it is unknown.
        finalized_features_epoch: i64 = -1, 3.., tag 1, ignorable;
        /// Features that the cluster has agreed on; valid with an epoch of at least 0.
        finalized_features: Vec<FinalizedFeatureKey<'a>>, 3.., tag 2, ignorable;
        /// Whether a controller is ready to migrate from ZooKeeper.
        zk_migration_ready: bool, 3.., tag 3, ignorable;
    }

    /// The versions of one API.
    struct ApiVersion<'a> {
        /// The API.
        api_key: i16, 0..;
        /// Its lowest version.
        min_version: i16, 0..;
        /// Its highest version.
        max_version: i16, 0..;
    }

    /// The versions of a feature that the broker supports.
    struct SupportedFeatureKey<'a> {
        /// The feature.
        name: &'a str, 3..;
        /// Its lowest version.
        min_version: i16, 3..;
        /// Its highest version.
        max_version: i16, 3..;
    }

    /// The levels of a feature that the cluster has agreed on.
    struct FinalizedFeatureKey<'a> {
        /// The feature.
        name: &'a str, 3..;
        /// Its highest level.
        max_version_level: i16, 3..;
        /// Its lowest level.
        min_version_level: i16, 3..;
    }
}
