//! ApiVersions, API key 18, versions 0-5.
//!
//! Version 1 adds the throttle time. 3 is flexible, and adds the client's software to the request and features to the
//! response. 4 lets a feature's lowest version be 0. 5 adds the cluster and node to which the client believes it
//! connects; a broker with another id returns REBOOTSTRAP_REQUIRED (KIP-1242).
//!
//! A broker that does not support the request's version responds in version 0 with UNSUPPORTED_VERSION and its own
//! versions (KIP-511). The header of the response is always version 0.

use crate::wire::api;

api! {
    ApiVersions, versions 0..=5, flexible 3..;

    /// Asks for the API versions that the broker supports.
    request ApiVersionsRequest<'a> {
        /// The client's name; brokers accept letters, digits, dots and dashes only.
        client_software_name: &'a str, 3.., ignorable;
        /// The client's version, of the same characters.
        client_software_version: &'a str, 3.., ignorable;
        /// The id of the cluster to which the client believes it connects; set together with the node id or not at all.
        cluster_id: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The id of the node to which the client believes it connects, or -1.
        node_id: i32 = -1, 5.., ignorable;
    }

    /// The APIs and features of the broker.
    response ApiVersionsResponse<'a> {
        error_code: i16, 0..;
        /// The APIs that the broker supports.
        api_keys: Vec<ApiVersion<'a>>, 0..;
        throttle_time_ms: i32, 1.., ignorable;
        /// The features that the broker supports.
        supported_features: Vec<SupportedFeatureKey<'a>>, 3.., tag 0, ignorable;
        /// The epoch of the finalized features, which grows with each change; -1 if not known.
        finalized_features_epoch: i64 = -1, 3.., tag 1, ignorable;
        /// The finalized features of the cluster; valid if their epoch is at least 0.
        finalized_features: Vec<FinalizedFeatureKey<'a>>, 3.., tag 2, ignorable;
        /// True if a controller is ready to migrate from ZooKeeper.
        zk_migration_ready: bool, 3.., tag 3, ignorable;
    }

    /// The versions of one API.
    struct ApiVersion<'a> {
        api_key: i16, 0..;
        /// The API's lowest version.
        min_version: i16, 0..;
        /// The API's highest version.
        max_version: i16, 0..;
    }

    /// The versions of a feature that the broker supports.
    struct SupportedFeatureKey<'a> {
        name: &'a str, 3..;
        /// The feature's lowest version.
        min_version: i16, 3..;
        /// The feature's highest version.
        max_version: i16, 3..;
    }

    /// The finalized levels of one feature.
    struct FinalizedFeatureKey<'a> {
        name: &'a str, 3..;
        /// The feature's highest level.
        max_version_level: i16, 3..;
        /// The feature's lowest level.
        min_version_level: i16, 3..;
    }
}
