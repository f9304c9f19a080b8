//! AlterConfigs, versions 0-2: replaces all configs of topics, brokers and groups. A config that the request does not
//! name is removed; otherwise as in IncrementalAlterConfigs.
//!
//! Not implemented: client metrics (KIP-714), which are refused with INVALID_REQUEST.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse, AlterableConfig,
};

use super::altering::{self, Target, invalid};
use super::{ApiError, Handled, resource};
use crate::cluster::{ConfigValues, NodeId};
use crate::core::Core;
use crate::request::Call;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &AlterConfigsRequest<'_>) -> Handled {
    let resources = request.resources.iter().map(|wanted| (wanted, (wanted.resource_type, wanted.resource_name)));
    let outcomes =
        altering::each(core, call, resources, |core, wanted| alter(core, call.node, wanted, request.validate_only));
    Ok(call.answer::<AlterConfigsRequest<'_>>(&response(request, altering::errors(&outcomes))))
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
    let set: ConfigValues = wanted.configs.iter().map(value).collect();
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
    response(request, std::iter::repeat((error.code(), Some(error.message()))))
}

fn response<'a>(
    request: &AlterConfigsRequest<'a>,
    errors: impl Iterator<Item = (i16, Option<&'a str>)>,
) -> AlterConfigsResponse<'a> {
    let responses = request.resources.iter().zip(errors).map(|(wanted, (error_code, error_message))| {
        let &AlterConfigsResource { resource_type, resource_name, .. } = wanted;
        AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name, ..Default::default() }
    });
    AlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}
