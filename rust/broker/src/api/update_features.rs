//! UpdateFeatures, versions 0-2: validates updates of features as Kafka does.
//!
//! Not implemented: changing a feature. An update to the finalized level succeeds, another is refused: `max_versions`
//! sets the levels when the broker starts.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::update_features::{
    FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

use super::Handled;
use super::api_versions::{Feature, features};
use crate::cluster::NodeId;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

type Request<'a> = UpdateFeaturesRequest<'a>;

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Alter, Resource::Cluster)?;
    let known = features(core);
    let controller = core.nodes.controller().unwrap_or(call.node);
    // If a feature is named twice, the last update counts.
    let updates: BTreeMap<&str, &FeatureUpdateKey<'_>> =
        request.feature_updates.iter().map(|update| (update.feature, update)).collect();
    let refused = updates.values().find_map(|update| {
        let problem = check(controller, &known, update).err()?;
        let (level, name) = (update.max_version_level, update.feature);
        Some(format!("Invalid update version {level} for feature {name}. {problem}"))
    });
    if let Some(problem) = refused {
        let message = format!("The update failed for all features since the following feature had an error: {problem}");
        return Ok(call.answer::<Request<'_>>(&UpdateFeaturesResponse {
            error_code: ErrorCode::InvalidUpdateVersion.code(),
            error_message: Some(&message),
            ..Default::default()
        }));
    }
    let named = |update: &FeatureUpdateKey<'_>| update.feature.to_owned();
    let names: Vec<String> = request.feature_updates.iter().filter(|_| call.version < 2).map(named).collect();
    let results = names.iter().map(|feature| UpdatableFeatureResult {
        feature,
        // Kafka sends the message of "no error" here.
        error_message: Some(ErrorCode::None.name()),
        ..Default::default()
    });
    Ok(call.answer::<Request<'_>>(&UpdateFeaturesResponse {
        error_message: None,
        results: results.collect(),
        ..Default::default()
    }))
}

/// Checks that an update leaves the feature at its level.
///
/// # Errors
/// The message that says why the feature cannot have the requested level.
fn check(controller: NodeId, known: &[Feature], update: &FeatureUpdateKey<'_>) -> Result<(), String> {
    let level = update.max_version_level;
    if !(UPGRADE..=UNSAFE_DOWNGRADE).contains(&update.upgrade_type) {
        return Err("The controller does not support the given upgrade type.".to_owned());
    }
    if level < 0 {
        return Err("A feature version cannot be less than 0.".to_owned());
    }
    let Some(feature) = known.iter().find(|feature| feature.name == update.feature) else {
        return Err(match level {
            0 => format!("Feature {} not found.", update.feature),
            _ => format!("Local controller {controller} does not support this feature."),
        });
    };
    if !(feature.min..=feature.max).contains(&level) {
        let (min, max) = (feature.min, feature.max);
        return Err(format!("Local controller {controller} only supports versions {min}-{max}"));
    }
    let downgrades = [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE].contains(&update.upgrade_type);
    match (level < feature.level, downgrades) {
        (false, _) => Ok(()),
        (true, false) => {
            Err("Can't downgrade the version of this feature without setting the upgrade type to either safe \
                              or unsafe downgrade."
                .to_owned())
        }
        (true, true) => Err("The features of this broker stand still while it runs: it is told at its start, by the \
                             highest versions of its APIs, what it plays."
            .to_owned()),
    }
}
