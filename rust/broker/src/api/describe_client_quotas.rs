//! DescribeClientQuotas, versions 0-1 (KIP-546): the quotas of the entities that a filter selects.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_client_quotas::{
    DescribeClientQuotasComponentData, DescribeClientQuotasEntityData, DescribeClientQuotasEntryData,
    DescribeClientQuotasRequest, DescribeClientQuotasResponse, DescribeClientQuotasValueData,
};

use super::alter_client_quotas::{CLIENT_ID, IP, USER};
use super::altering::invalid;
use super::{ApiError, Handled};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Match, Operation, Resource};

type Request<'a> = DescribeClientQuotasRequest<'a>;

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::DescribeConfigs, Resource::Cluster)?;
    let filter = match filter(request) {
        Ok(filter) => filter,
        Err(ApiError { code, message }) => {
            return Ok(call.answer::<Request<'_>>(&DescribeClientQuotasResponse {
                error_code: code.code(),
                error_message: message.as_deref(),
                entries: None,
                ..Default::default()
            }));
        }
    };
    let entries = core.security.quotas().select(&filter, request.strict).map(|(entity, values)| {
        let entity = entity.iter().map(|(entity_type, name)| DescribeClientQuotasEntityData {
            entity_type,
            entity_name: name.as_deref(),
            ..Default::default()
        });
        let values =
            values.iter().map(|(key, &value)| DescribeClientQuotasValueData { key, value, ..Default::default() });
        DescribeClientQuotasEntryData { entity: entity.collect(), values: values.collect(), ..Default::default() }
    });
    Ok(call.answer::<Request<'_>>(&DescribeClientQuotasResponse {
        entries: Some(entries.collect()),
        ..Default::default()
    }))
}

fn filter(request: &Request<'_>) -> Result<BTreeMap<String, Match>, ApiError> {
    let mut filter = BTreeMap::new();
    for component in &request.components {
        let kind = component.entity_type;
        if kind.is_empty() {
            return Err(invalid("Invalid empty entity type."));
        }
        if filter.contains_key(kind) {
            return Err(invalid(format!("Entity type {kind} cannot appear more than once in the filter.")));
        }
        if ![USER, CLIENT_ID, IP].contains(&kind) {
            let message = format!("Unsupported entity type {kind}");
            return Err(ApiError::new(ErrorCode::UnsupportedVersion, message));
        }
        filter.insert(kind.to_owned(), wanted(component)?);
    }
    if filter.contains_key(IP) && filter.len() > 1 {
        let message = "Invalid entity filter component combination. IP filter component should not be used with user or \
                       clientId filter component.";
        return Err(invalid(message));
    }
    Ok(filter)
}

fn wanted(component: &DescribeClientQuotasComponentData<'_>) -> Result<Match, ApiError> {
    match (component.match_type, component.r#match) {
        (EXACT, Some(name)) => Ok(Match::Exact(Some(name.to_owned()))),
        (EXACT, None) => Err(invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")),
        (DEFAULT, None) => Ok(Match::Exact(None)),
        (DEFAULT, Some(_)) => Err(invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")),
        (SPECIFIED, None) => Ok(Match::Any),
        (SPECIFIED, Some(_)) => {
            Err(invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."))
        }
        (kind, _) => Err(invalid(format!("Unknown match type {kind}"))),
    }
}

pub(super) fn refuse<'a>(_request: &Request<'a>, error: ErrorCode) -> DescribeClientQuotasResponse<'a> {
    DescribeClientQuotasResponse {
        error_code: error.code(),
        // Kafka sends no message that only repeats the code.
        error_message: None,
        entries: None,
        ..Default::default()
    }
}
