//! DeleteAcls, versions 1-3: deletes the ACLs that filters select. Without an authorizer it answers SECURITY_DISABLED.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::delete_acls::{
    DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse,
};

use super::altering::invalid;
use super::{ApiError, Handled};
use crate::core::Core;
use crate::request::{Answer, Call};
use crate::security::{Acl, AclFilter, Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DeleteAclsRequest<'_>) -> Handled {
    let filters: Vec<AclFilter<'_>> = request.filters.iter().map(filter).collect();
    if filters.iter().any(AclFilter::has_code_0) {
        return Ok(Answer::Close("a filter of ACLs has code 0, which stands for what is unknown".to_owned()));
    }
    core.authorize(call, Operation::Alter, Resource::Cluster)?;
    let Some(authorizer) = core.security.authorizer_mut() else {
        let message = "No Authorizer is configured.";
        return Ok(call.answer::<DeleteAclsRequest<'_>>(&refused(request, ErrorCode::SecurityDisabled, message)));
    };
    // As in Kafka, each filter selects from the ACLs that there were before the request.
    let selected: Vec<Result<Vec<Acl>, ApiError>> = filters
        .iter()
        .map(|filter| match filter.unknown() {
            Some(part) => Err(invalid(format!("Unknown {part}."))),
            None => Ok(authorizer.select(filter).cloned().collect()),
        })
        .collect();
    selected.iter().flatten().flatten().for_each(|acl| authorizer.remove(acl));
    let filter_results = selected.iter().map(|selected| match selected {
        Ok(acls) => DeleteAclsFilterResult {
            error_message: None,
            matching_acls: acls.iter().map(describe).collect(),
            ..Default::default()
        },
        Err(error) => DeleteAclsFilterResult {
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            ..Default::default()
        },
    });
    let response = DeleteAclsResponse { filter_results: filter_results.collect(), ..Default::default() };
    Ok(call.answer::<DeleteAclsRequest<'_>>(&response))
}

fn filter<'a>(filter: &DeleteAclsFilter<'a>) -> AclFilter<'a> {
    AclFilter {
        resource_type: filter.resource_type_filter,
        name: filter.resource_name_filter,
        pattern_type: filter.pattern_type_filter,
        principal: filter.principal_filter,
        host: filter.host_filter,
        operation: filter.operation,
        permission_type: filter.permission_type,
    }
}

fn describe(acl: &Acl) -> DeleteAclsMatchingAcl<'_> {
    DeleteAclsMatchingAcl {
        error_message: None,
        resource_type: acl.resource_type.code(),
        resource_name: &acl.name,
        pattern_type: acl.pattern_type.code(),
        principal: &acl.principal,
        host: &acl.host,
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    }
}

fn refused<'a>(request: &DeleteAclsRequest<'a>, error: ErrorCode, message: &'a str) -> DeleteAclsResponse<'a> {
    let result = |_: &DeleteAclsFilter<'_>| DeleteAclsFilterResult {
        error_code: error.code(),
        error_message: Some(message),
        ..Default::default()
    };
    DeleteAclsResponse { filter_results: request.filters.iter().map(result).collect(), ..Default::default() }
}

pub(super) fn refuse<'a>(request: &DeleteAclsRequest<'a>, error: ErrorCode) -> DeleteAclsResponse<'a> {
    refused(request, error, error.message())
}
