//! CreateAcls, versions 1-3. Without an authorizer it answers SECURITY_DISABLED.
//!
//! Not implemented: storing ACLs. They are kept in memory only: a restart loses them, also with a data directory.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_acls::{AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse};

use super::altering::invalid;
use super::{ApiError, Mentions};
use crate::core::{Answer, Call, Core};
use crate::security::{Acl, CLUSTER_NAME, Operation, PatternType, PermissionType, Resource, ResourceType};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &CreateAclsRequest<'_>) -> Answer {
    // Codes above those that Kafka knows, and 0, which stands for them.
    let unknown = |acl: &AclCreation<'_>| {
        !(1..=7).contains(&acl.resource_type)
            || !(1..=4).contains(&acl.resource_pattern_type)
            || !(1..=15).contains(&acl.operation)
            || !(1..=3).contains(&acl.permission_type)
    };
    if request.creations.iter().any(unknown) {
        return Answer::Close("an ACL to create has an unknown code".to_owned());
    }
    if let Err(error) = core.authorize(call, Operation::Alter, Resource::Cluster) {
        return call.answer::<CreateAclsRequest<'_>>(&refuse(request, error));
    }
    let Some(authorizer) = &mut core.security.authorizer else {
        let message = "No Authorizer is configured.";
        return call.answer::<CreateAclsRequest<'_>>(&refused(request, ErrorCode::SecurityDisabled, message));
    };
    let outcomes: Vec<Result<(), ApiError>> =
        request.creations.iter().map(|creation| check(creation).map(|acl| authorizer.add(acl))).collect();
    let results = outcomes.iter().map(|outcome| AclCreationResult {
        error_code: outcome.as_ref().err().map_or(0, |error| error.code.code()),
        error_message: outcome.as_ref().err().and_then(|error| error.message.as_deref()),
        ..Default::default()
    });
    call.answer::<CreateAclsRequest<'_>>(&CreateAclsResponse { results: results.collect(), ..Default::default() })
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
    let wrong = |what: &str, name: &str| invalid(format!("Invalid {what} {name}"));
    let pattern = match creation.resource_pattern_type {
        2 => "MATCH",
        _ => "ANY",
    };
    Ok(Acl {
        resource_type: ResourceType::from_code(creation.resource_type).ok_or_else(|| wrong("resourceType", "ANY"))?,
        name: creation.resource_name.to_owned(),
        pattern_type: PatternType::from_code(creation.resource_pattern_type)
            .ok_or_else(|| wrong("patternType", pattern))?,
        principal: creation.principal.to_owned(),
        host: creation.host.to_owned(),
        operation: Operation::from_code(creation.operation).ok_or_else(|| wrong("operation", "ANY"))?,
        permission: PermissionType::from_code(creation.permission_type)
            .ok_or_else(|| wrong("permissionType", "ANY"))?,
    })
}

fn refused<'a>(request: &CreateAclsRequest<'a>, error: ErrorCode, message: &'a str) -> CreateAclsResponse<'a> {
    let result = |_: &AclCreation<'_>| AclCreationResult {
        error_code: error.code(),
        error_message: Some(message),
        ..Default::default()
    };
    CreateAclsResponse { results: request.creations.iter().map(result).collect(), ..Default::default() }
}

pub(super) fn refuse<'a>(request: &CreateAclsRequest<'a>, error: ErrorCode) -> CreateAclsResponse<'a> {
    refused(request, error, error.message())
}

pub(super) fn mentions<'a>(_request: &CreateAclsRequest<'a>) -> Mentions<'a> {
    Mentions::default()
}
