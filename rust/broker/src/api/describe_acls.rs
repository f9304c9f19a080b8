//! DescribeAcls, versions 1-3: the ACLs that a filter selects, by resource pattern. Without an authorizer it answers
//! SECURITY_DISABLED.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_acls::{
    AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse,
};

use super::Handled;
use crate::core::Core;
use crate::request::{Answer, Call};
use crate::security::{Acl, AclFilter, Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeAclsRequest<'_>) -> Handled {
    let filter = filter(request);
    if filter.has_code_0() {
        return Ok(Answer::Close("a filter of ACLs has code 0, which stands for what is unknown".to_owned()));
    }
    core.authorize(call, Operation::Describe, Resource::Cluster)?;
    let Some(authorizer) = core.security.authorizer() else {
        return Ok(call.answer::<DescribeAclsRequest<'_>>(&DescribeAclsResponse {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: Some("No Authorizer is configured on the broker"),
            ..Default::default()
        }));
    };
    let mut by_pattern: BTreeMap<_, Vec<&Acl>> = BTreeMap::new();
    for acl in authorizer.select(&filter) {
        by_pattern.entry((acl.resource_type, acl.name.as_str(), acl.pattern_type)).or_default().push(acl);
    }
    let resources = by_pattern.into_iter().map(|((kind, resource_name, pattern), acls)| DescribeAclsResource {
        resource_type: kind.code(),
        resource_name,
        pattern_type: pattern.code(),
        acls: acls.into_iter().map(describe).collect(),
        ..Default::default()
    });
    Ok(call.answer::<DescribeAclsRequest<'_>>(&DescribeAclsResponse {
        resources: resources.collect(),
        ..Default::default()
    }))
}

fn filter<'a>(request: &DescribeAclsRequest<'a>) -> AclFilter<'a> {
    AclFilter {
        resource_type: request.resource_type_filter,
        name: request.resource_name_filter,
        pattern_type: request.pattern_type_filter,
        principal: request.principal_filter,
        host: request.host_filter,
        operation: request.operation,
        permission_type: request.permission_type,
    }
}

fn describe(acl: &Acl) -> AclDescription<'_> {
    AclDescription {
        principal: &acl.principal,
        host: &acl.host,
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    }
}
