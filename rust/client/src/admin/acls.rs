//! ACLs (KIP-140): describing, creating and deleting them.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use monedula_protocol::api::Request;
use monedula_protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use monedula_protocol::messages::delete_acls::{DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest};
use monedula_protocol::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResource};

use super::call::{AdminCall, Answers, CallResult, ItemCall, Items, Recipient, Refusal, read};
use super::words::words;
use super::{Admin, AdminContext};
use crate::net::network::NodeId;

words! {
    /// The type of a resource, by Kafka's number.
    AclResourceType, "type of resource" {
        1 = "any", 2 = "topic", 3 = "group", 4 = "cluster", 5 = "transactional_id", 6 = "delegation_token", 7 = "user",
    }
}

words! {
    /// Comparison of the name of an ACL's resource, by Kafka's number (KIP-290).
    AclPatternType, "pattern type" {
        1 = "any", 2 = "match", 3 = "literal", 4 = "prefixed",
    }
}

words! {
    /// An operation, by Kafka's number.
    AclOperation, "operation" {
        1 = "any", 2 = "all", 3 = "read", 4 = "write", 5 = "create", 6 = "delete", 7 = "alter", 8 = "describe",
        9 = "cluster_action", 10 = "describe_configs", 11 = "alter_configs", 12 = "idempotent_write",
        13 = "create_tokens", 14 = "describe_tokens", 15 = "two_phase_commit",
    }
}

words! {
    /// Kafka's number of the permission: allow or deny.
    AclPermissionType, "type of permission" {
        1 = "any", 2 = "deny", 3 = "allow",
    }
}

const USER: AclResourceType = AclResourceType(7);

/// An ACL ([`AclBinding`]) or a filter of them ([`AclFilter`]), in which the word `any` and the text `None` match all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl<Text> {
    /// The type of the resource.
    pub resource_type: AclResourceType,
    /// The name of the resource; of an ACL also a prefix of names, or `*`.
    pub resource_name: Text,
    /// Comparison of the name. In a filter, `match` finds every pattern that covers `resource_name`.
    pub pattern_type: AclPatternType,
    /// The principal, such as `User:anna`.
    pub principal: Text,
    /// The address of the client, or `*`.
    pub host: Text,
    /// The operation.
    pub operation: AclOperation,
    /// Permission: allow or deny.
    pub permission_type: AclPermissionType,
}

/// An ACL: one permission of one principal on the resources that a pattern names.
pub type AclBinding = Acl<String>;

/// Filter of ACLs.
pub type AclFilter = Acl<Option<String>>;

impl fmt::Display for AclBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource_type, resource_name, pattern_type, principal, host, operation, permission_type } = self;
        write!(
            f,
            "({permission_type} {principal} to {operation} {pattern_type} {resource_type} {resource_name} from {host})"
        )
    }
}

/// Names what restricts the filter, and nothing else.
impl fmt::Display for AclFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource_type, resource_name, pattern_type, principal, host, operation, permission_type } = self;
        let words = [
            ("permission", permission_type.to_string()),
            ("operation", operation.to_string()),
            ("resource", resource_type.to_string()),
            ("pattern", pattern_type.to_string()),
        ];
        let texts = [("name", resource_name), ("principal", principal), ("host", host)];
        let restrictions: Vec<String> = words
            .iter()
            .filter(|(_, word)| word != "any")
            .map(|(name, word)| format!("{name} {word}"))
            .chain(texts.iter().filter_map(|(name, text)| text.as_ref().map(|text| format!("{name} {text}"))))
            .collect();
        match restrictions.is_empty() {
            true => f.write_str("(all of them)"),
            false => write!(f, "({})", restrictions.join(", ")),
        }
    }
}

impl Admin {
    /// Describes the ACLs that the filter matches.
    pub fn describe_acls(&self, filter: AclFilter, timeout: Duration) -> AdminCall<Vec<AclBinding>> {
        self.run_one(DescribeAcls, filter, timeout)
    }

    /// Creates ACLs. One that exists is left as it is.
    pub fn create_acls(&self, acls: Vec<AclBinding>, timeout: Duration) -> AdminCall<Items<AclBinding, ()>> {
        self.run(CreateAcls, acls, timeout)
    }

    /// Deletes the ACLs that the filters match; returns them for each filter.
    pub fn delete_acls(
        &self,
        filters: Vec<AclFilter>,
        timeout: Duration,
    ) -> AdminCall<Items<AclFilter, Vec<AclBinding>>> {
        self.run(DeleteAcls, filters, timeout)
    }
}

/// The versions of a request, which are 3 and above if it names resources of type user (KIP-373).
fn versions(all: RangeInclusive<i16>, types: impl IntoIterator<Item = AclResourceType>) -> RangeInclusive<i16> {
    match types.into_iter().any(|kind| kind == USER) {
        true => 3..=*all.end(),
        false => all,
    }
}

struct DescribeAcls;

impl ItemCall for DescribeAcls {
    type Key = AclFilter;
    type Value = Vec<AclBinding>;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, filter: &AclFilter) -> String {
        format!("describing the ACLs {filter}")
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, filters: &[AclFilter]) -> CallResult<Self> {
        let mut answers = Answers::new();
        // A request has one filter, and so has a call.
        for filter in filters {
            let build = |_| DescribeAclsRequest {
                resource_type_filter: filter.resource_type.0,
                resource_name_filter: filter.resource_name.as_deref(),
                pattern_type_filter: filter.pattern_type.0,
                principal_filter: filter.principal.as_deref(),
                host_filter: filter.host.as_deref(),
                operation: filter.operation.0,
                permission_type: filter.permission_type.0,
                ..Default::default()
            };
            let versions = versions(DescribeAclsRequest::VERSIONS, [filter.resource_type]);
            let (frame, version) = context.call(node, versions, build).await?;
            let response = read::<DescribeAclsRequest<'_>>(&frame, version)?;
            let outcome = Refusal::check(response.error_code, response.error_message);
            answers.push((filter.clone(), outcome.map(|()| response.resources.iter().flat_map(bindings).collect())));
        }
        Ok(answers)
    }
}

fn bindings(resource: &DescribeAclsResource<'_>) -> impl Iterator<Item = AclBinding> {
    resource.acls.iter().map(|acl| AclBinding {
        resource_type: AclResourceType(resource.resource_type),
        resource_name: resource.resource_name.to_owned(),
        pattern_type: AclPatternType(resource.pattern_type),
        principal: acl.principal.to_owned(),
        host: acl.host.to_owned(),
        operation: AclOperation(acl.operation),
        permission_type: AclPermissionType(acl.permission_type),
    })
}

struct CreateAcls;

impl ItemCall for CreateAcls {
    type Key = AclBinding;
    type Value = ();

    fn what(&self, acl: &AclBinding) -> String {
        format!("creating the ACL {acl}")
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, acls: &[AclBinding]) -> CallResult<Self> {
        let build = |_| CreateAclsRequest { creations: acls.iter().map(creation).collect(), ..Default::default() };
        let versions = versions(CreateAclsRequest::VERSIONS, acls.iter().map(|acl| acl.resource_type));
        let (frame, version) = context.call(node, versions, build).await?;
        let response = read::<CreateAclsRequest<'_>>(&frame, version)?;
        let outcomes = response.results.iter().map(|result| Refusal::check(result.error_code, result.error_message));
        Ok(acls.iter().cloned().zip(outcomes).collect())
    }
}

fn creation(acl: &AclBinding) -> AclCreation<'_> {
    AclCreation {
        resource_type: acl.resource_type.0,
        resource_name: &acl.resource_name,
        resource_pattern_type: acl.pattern_type.0,
        principal: &acl.principal,
        host: &acl.host,
        operation: acl.operation.0,
        permission_type: acl.permission_type.0,
        ..Default::default()
    }
}

struct DeleteAcls;

impl ItemCall for DeleteAcls {
    type Key = AclFilter;
    type Value = Vec<AclBinding>;

    fn what(&self, filter: &AclFilter) -> String {
        format!("deleting the ACLs {filter}")
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, filters: &[AclFilter]) -> CallResult<Self> {
        let build = |_| DeleteAclsRequest { filters: filters.iter().map(wanted).collect(), ..Default::default() };
        let versions = versions(DeleteAclsRequest::VERSIONS, filters.iter().map(|filter| filter.resource_type));
        let (frame, version) = context.call(node, versions, build).await?;
        let response = read::<DeleteAclsRequest<'_>>(&frame, version)?;
        Ok(filters.iter().cloned().zip(response.filter_results.iter().map(deleted)).collect())
    }
}

fn wanted(filter: &AclFilter) -> DeleteAclsFilter<'_> {
    DeleteAclsFilter {
        resource_type_filter: filter.resource_type.0,
        resource_name_filter: filter.resource_name.as_deref(),
        pattern_type_filter: filter.pattern_type.0,
        principal_filter: filter.principal.as_deref(),
        host_filter: filter.host.as_deref(),
        operation: filter.operation.0,
        permission_type: filter.permission_type.0,
        ..Default::default()
    }
}

/// The ACLs that a filter deleted. If one could not be deleted, an error, which names it and counts the others.
fn deleted(result: &DeleteAclsFilterResult<'_>) -> Result<Vec<AclBinding>, Refusal> {
    Refusal::check(result.error_code, result.error_message)?;
    let mut deleted = Vec::with_capacity(result.matching_acls.len());
    let mut kept: Vec<(AclBinding, Refusal)> = Vec::new();
    for acl in &result.matching_acls {
        let binding = AclBinding {
            resource_type: AclResourceType(acl.resource_type),
            resource_name: acl.resource_name.to_owned(),
            pattern_type: AclPatternType(acl.pattern_type),
            principal: acl.principal.to_owned(),
            host: acl.host.to_owned(),
            operation: AclOperation(acl.operation),
            permission_type: AclPermissionType(acl.permission_type),
        };
        match Refusal::check(acl.error_code, acl.error_message) {
            Ok(()) => deleted.push(binding),
            Err(refusal) => kept.push((binding, refusal)),
        }
    }
    let (count, done) = (kept.len(), deleted.len());
    match kept.into_iter().next() {
        None => Ok(deleted),
        Some((binding, Refusal { code, detail })) => {
            let reason = detail.unwrap_or_else(|| code.message().into());
            let detail =
                format!("{done} ACLs were deleted and {count} were not, the first of them {binding}: {reason}");
            Err(Refusal { code, detail: Some(detail) })
        }
    }
}
