//! IncrementalAlterConfigs, versions 0-1: changes single configs of topics, brokers and groups, with immediate effect.
//! Subscriptions of client metrics (KIP-714) are resources too.
//!
//! Not implemented: log levels of broker loggers, which are refused with INVALID_REQUEST.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use super::altering::{self, Target, invalid};
use super::{ApiError, Handled, resource};
use crate::cluster::{ConfigDef, ConfigValues, NodeId, broker_def};
use crate::core::Core;
use crate::request::Call;
use crate::settings::ConfigType;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &IncrementalAlterConfigsRequest<'_>) -> Handled {
    let resources = request.resources.iter().map(|wanted| (wanted, (wanted.resource_type, wanted.resource_name)));
    let outcomes =
        altering::each(core, call, resources, |core, wanted| alter(core, call.node, wanted, request.validate_only));
    Ok(call.answer::<IncrementalAlterConfigsRequest<'_>>(&response(request, altering::errors(&outcomes))))
}

fn alter(
    core: &mut Core,
    node: NodeId,
    wanted: &AlterConfigsResource<'_>,
    validate_only: bool,
) -> Result<(), ApiError> {
    let changes = &wanted.configs;
    let named: Vec<(&str, bool)> =
        changes.iter().map(|config| (config.name, config.config_operation != DELETE)).collect();
    let given = |config: &AlterableConfig<'_>| config.config_operation == DELETE || config.value.is_some();
    altering::check_names(changes.iter().map(|config| (config.name, given(config))))?;
    let target = Target { node, name: wanted.resource_name, validate_only };
    match wanted.resource_type {
        resource::TOPIC => {
            altering::topic(core, target, |before| apply(before, changes, |name| ConfigDef::of_topic(name).copied()))
        }
        resource::BROKER => altering::broker(core, target, &named, |before| apply(before, changes, broker_def)),
        resource::GROUP => {
            altering::group(core, target, |before| apply(before, changes, |name| altering::group_def(name).copied()))
        }
        // Kafka knows no types of these, so that nothing can be added to a list or taken from it.
        resource::CLIENT_METRICS => altering::client_metrics(core, target, |before| apply(before, changes, |_| None)),
        resource::BROKER_LOGGER => {
            resource::own_node(node, wanted.resource_name, "Node id")?;
            Err(invalid("The levels of this broker's log cannot be changed."))
        }
        kind => Err(invalid(format!("Unknown resource type {kind}"))),
    }
}

/// The values after the changes, not validated yet.
fn apply(
    mut values: ConfigValues,
    changes: &[AlterableConfig<'_>],
    def: impl Fn(&str) -> Option<ConfigDef>,
) -> Result<ConfigValues, ApiError> {
    for AlterableConfig { name, config_operation: operation, value, .. } in changes {
        let value = value.unwrap_or_default();
        match *operation {
            SET => drop(values.insert((*name).to_owned(), value.to_owned())),
            DELETE => drop(values.remove(*name)),
            APPEND | SUBTRACT => {
                let append = *operation == APPEND;
                let def = def(name).filter(|def| def.kind == ConfigType::List).ok_or_else(|| {
                    let operation = if append { "APPEND" } else { "SUBTRACT" };
                    let message = format!("Can't {operation} to key {name} because its type is not LIST.");
                    ApiError::new(ErrorCode::InvalidConfig, message)
                })?;
                let default = crate::cluster::list_default(&def);
                let before = values.get(*name).map_or(default.as_str(), String::as_str);
                let changed = change_list(before, value, append);
                values.insert((*name).to_owned(), changed);
            }
            // Kafka sends no message here, either.
            _ => return Err(ErrorCode::UnknownServerError.into()),
        }
    }
    Ok(values)
}

fn change_list(before: &str, change: &str, append: bool) -> String {
    let mut items: Vec<&str> = before.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    for item in change.split(',') {
        if !append {
            items.retain(|kept| *kept != item);
        } else if !items.contains(&item) {
            items.push(item);
        }
    }
    items.join(",")
}

pub(super) fn refuse<'a>(
    request: &IncrementalAlterConfigsRequest<'a>,
    error: ErrorCode,
) -> IncrementalAlterConfigsResponse<'a> {
    response(request, std::iter::repeat((error.code(), Some(error.message()))))
}

fn response<'a>(
    request: &IncrementalAlterConfigsRequest<'a>,
    errors: impl Iterator<Item = (i16, Option<&'a str>)>,
) -> IncrementalAlterConfigsResponse<'a> {
    let responses = request.resources.iter().zip(errors).map(|(wanted, (error_code, error_message))| {
        let &AlterConfigsResource { resource_type, resource_name, .. } = wanted;
        AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name, ..Default::default() }
    });
    IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}
