//! UpdateFeatures, API key 57, versions 0-2, flexible from 0 (KIP-584).
//!
//! 1 adds kinds of upgrades and the dry run (KIP-778). 2 answers for all features at once (KIP-1022).

use crate::wire::api;

api! {
    UpdateFeatures, versions 0..=2, flexible 0..;

    /// Changes the levels of features.
    request UpdateFeaturesRequest<'a> {
        /// How long the controller may take.
        timeout_ms: i32 = 60_000, 0..;
        /// The changes.
        feature_updates: Vec<FeatureUpdateKey<'a>>, 0..;
        /// Whether the request is only checked, and nothing changed.
        validate_only: bool, 1..;
    }

    /// What became of them.
    response UpdateFeaturesResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// Each feature's outcome.
        results: Vec<UpdatableFeatureResult<'a>>, 0..=1, ignorable;
    }

    /// A change of a feature.
    struct FeatureUpdateKey<'a> {
        /// Its name.
        feature: &'a str, 0..;
        /// The level that it is to have; below 1 removes it.
        max_version_level: i16, 0..;
        /// Whether the level may go down.
        allow_downgrade: bool, 0..=0;
        /// 1 for upgrades only, 2 for downgrades that lose nothing too, 3 for all.
        upgrade_type: i8 = 1, 1..;
    }

    /// A feature's outcome.
    struct UpdatableFeatureResult<'a> {
        /// Its name.
        feature: &'a str, 0..;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str>, 0.., nullable 0..;
    }
}
