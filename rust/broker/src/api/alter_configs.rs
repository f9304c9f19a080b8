//! AlterConfigs, versions 0-2: replaces all configs of topics, brokers and groups. A config that the request does not
//! name is removed; otherwise as in IncrementalAlterConfigs.
//!
//! Not implemented: client metrics (KIP-714), which are refused with INVALID_REQUEST.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse, AlterableConfig,
};

use super::altering::{self, Target, invalid};
use super::{ApiError, Mentions, resource};
use crate::cluster::{NodeId, Values};
use crate::core::Core;
use crate::request::{Answer, Call};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &AlterConfigsRequest<'_>) -> Answer {
    let outcomes = altering::each(
        &request.resources,
        |wanted| (wanted.resource_type, wanted.resource_name),
        |wanted| {
            altering::authorize(core, call, wanted.resource_type, wanted.resource_name)?;
            alter(core, call.node, wanted, request.validate_only)
        },
    );
    let responses = request.resources.iter().zip(&outcomes).map(|(wanted, outcome)| AlterConfigsResourceResponse {
        error_code: outcome.as_ref().err().map_or(0, |error| error.code.code()),
        error_message: outcome.as_ref().err().and_then(|error| error.message.as_deref()),
        resource_type: wanted.resource_type,
        resource_name: wanted.resource_name,
        ..Default::default()
    });
    let response = AlterConfigsResponse { responses: responses.collect(), ..Default::default() };
    call.answer::<AlterConfigsRequest<'_>>(&response)
}

fn alter(
    core: &mut Core,
    node: NodeId,
    wanted: &AlterConfigsResource<'_>,
    validate_only: bool,
) -> Result<(), ApiError> {
    altering::check_names(wanted.configs.iter().map(|config| (config.name, config.value.is_some())))?;
    let named: Vec<(&str, bool)> = wanted.configs.iter().map(|config| (config.name, true)).collect();
    let value = |config: &AlterableConfig<'_>| (config.name.to_owned(), config.value.unwrap_or_default().to_owned());
    let set: Values = wanted.configs.iter().map(value).collect();
    let target = Target { node, name: wanted.resource_name, validate_only };
    match wanted.resource_type {
        resource::TOPIC => altering::topic(core, target, |_| Ok(set)),
        resource::BROKER => altering::broker(core, target, &named, |_| Ok(set)),
        resource::GROUP => altering::group(core, target, |_| Ok(set)),
        // As in Kafka, this API does not support broker loggers.
        kind => Err(invalid(format!("Unknown resource type {kind}"))),
    }
}

pub(super) fn refuse<'a>(request: &AlterConfigsRequest<'a>, error: ErrorCode) -> AlterConfigsResponse<'a> {
    let refused = |wanted: &AlterConfigsResource<'a>| AlterConfigsResourceResponse {
        error_code: error.code(),
        error_message: Some(error.message()),
        resource_type: wanted.resource_type,
        resource_name: wanted.resource_name,
        ..Default::default()
    };
    AlterConfigsResponse { responses: request.resources.iter().map(refused).collect(), ..Default::default() }
}

pub(super) fn mentions<'a>(request: &AlterConfigsRequest<'a>) -> Mentions<'a> {
    resource::mentions(request.resources.iter().map(|wanted| (wanted.resource_type, wanted.resource_name)))
}
