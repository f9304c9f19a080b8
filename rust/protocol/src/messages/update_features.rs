//! UpdateFeatures, API key 57, versions 0-2, flexible from 0 (KIP-584).
//!
//! Version 1 adds kinds of upgrades and validation without a change (KIP-778). 2 returns one result for all features
//! (KIP-1022).

use crate::wire::api;

api! {
    UpdateFeatures, versions 0..=2, flexible 0..;

    /// Changes the finalized levels of features.
    request UpdateFeaturesRequest<'a> {
        timeout_ms: i32 = 60_000, 0..;
        /// The changes.
        feature_updates: Vec<FeatureUpdateKey<'a>>, 0..;
        /// True to have the request only validated, without changes.
        validate_only: bool, 1..;
    }

    /// The result of the update.
    response UpdateFeaturesResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The result for each feature.
        results: Vec<UpdatableFeatureResult<'a>>, 0..=1, ignorable;
    }

    /// The change of one feature.
    struct FeatureUpdateKey<'a> {
        /// The feature's name.
        feature: &'a str, 0..;
        /// The new finalized level; below 1 deletes the finalized feature.
        max_version_level: i16, 0..;
        /// True if the level may be lowered.
        allow_downgrade: bool, 0..=0;
        /// 1 allows only upgrades, 2 also safe downgrades, 3 also unsafe ones.
        upgrade_type: i8 = 1, 1..;
    }

    /// The result for one feature.
    struct UpdatableFeatureResult<'a> {
        /// The feature's name.
        feature: &'a str, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
    }
}
