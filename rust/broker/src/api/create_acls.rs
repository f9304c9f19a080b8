//! CreateAcls, versions 1-3. Without an authorizer it answers SECURITY_DISABLED.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_acls::{AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse};

use super::altering::invalid;
use super::{ApiError, Handled};
use crate::core::Core;
use crate::request::{Answer, Call};
use crate::security::{
    ANY, Acl, CLUSTER_NAME, MATCH, Operation, PatternType, PermissionType, Resource, ResourceType, UNKNOWN,
};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &CreateAclsRequest<'_>) -> Handled {
    if request.creations.iter().any(|acl| codes(acl).contains(&UNKNOWN)) {
        return Ok(Answer::Close("an ACL to create has code 0, which stands for what is unknown".to_owned()));
    }
    core.authorize(call, Operation::Alter, Resource::Cluster)?;
    let Some(authorizer) = core.security.authorizer_mut() else {
        let message = "No Authorizer is configured.";
        return Ok(call.answer::<CreateAclsRequest<'_>>(&refused(request, ErrorCode::SecurityDisabled, Some(message))));
    };
    // Kafka fails here with an exception that it did not expect, and so refuses the ACLs beside this one, too.
    if request.creations.iter().any(|acl| codes(acl).contains(&ANY) || acl.resource_pattern_type == MATCH) {
        return Ok(call.answer::<CreateAclsRequest<'_>>(&refused(request, ErrorCode::UnknownServerError, None)));
    }
    let outcomes: Vec<Result<(), ApiError>> =
        request.creations.iter().map(|creation| check(creation).map(|acl| authorizer.add(acl))).collect();
    let results = outcomes.iter().map(|outcome| AclCreationResult {
        error_code: outcome.as_ref().err().map_or(0, |error| error.code.code()),
        error_message: outcome.as_ref().map_or_else(|error| error.message.as_deref(), |()| Some("")),
        ..Default::default()
    });
    Ok(call.answer::<CreateAclsRequest<'_>>(&CreateAclsResponse { results: results.collect(), ..Default::default() }))
}

/// The ACL to create.
///
/// # Errors
/// INVALID_REQUEST with Kafka's message.
fn check(creation: &AclCreation<'_>) -> Result<Acl, ApiError> {
    if creation.resource_type == ResourceType::Cluster.code() && creation.resource_name != CLUSTER_NAME {
        return Err(invalid(format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}")));
    }
    if creation.resource_name.is_empty() {
        return Err(invalid("Invalid empty resource name"));
    }
    let wrong = |what: &str| invalid(format!("Invalid {what} UNKNOWN"));
    let acl = Acl {
        resource_type: ResourceType::from_code(creation.resource_type).ok_or_else(|| wrong("resourceType"))?,
        name: creation.resource_name.to_owned(),
        pattern_type: PatternType::from_code(creation.resource_pattern_type).ok_or_else(|| wrong("patternType"))?,
        principal: creation.principal.to_owned(),
        host: creation.host.to_owned(),
        operation: Operation::from_code(creation.operation).ok_or_else(|| wrong("operation"))?,
        permission: PermissionType::from_code(creation.permission_type).ok_or_else(|| wrong("permissionType"))?,
    };
    if !acl.principal.contains(':') {
        let end = "(no colon is present separating the principal type from the principal name)";
        return Err(invalid(format!("Could not parse principal from `{}` {end}", acl.principal)));
    }
    Ok(acl)
}

/// The codes of an ACL: of its resource, pattern, operation and permission.
fn codes(acl: &AclCreation<'_>) -> [i8; 4] {
    [acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type]
}

fn refused<'a>(request: &CreateAclsRequest<'a>, error: ErrorCode, message: Option<&'a str>) -> CreateAclsResponse<'a> {
    let result = |_: &AclCreation<'_>| AclCreationResult {
        error_code: error.code(),
        error_message: message,
        ..Default::default()
    };
    CreateAclsResponse { results: request.creations.iter().map(result).collect(), ..Default::default() }
}

pub(super) fn refuse<'a>(request: &CreateAclsRequest<'a>, error: ErrorCode) -> CreateAclsResponse<'a> {
    refused(request, error, Some(error.message()))
}
