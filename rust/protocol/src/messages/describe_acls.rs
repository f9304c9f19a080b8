//! DescribeAcls, API key 29, versions 1-3 (KIP-140; Kafka 4.0 removed 0).
//!
//! Version 1 adds pattern types (KIP-290). 2 is flexible. 3 adds resources of type user (KIP-373).
//!
//! Types of resources: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
//! Pattern types: 1 any, 2 match (all patterns that cover the name), 3 literal, 4 prefixed.
//! Operations: 1 any, 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action,
//! 10 describe configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two-phase commit.
//! Permission types: 1 any, 2 deny, 3 allow. Any and match stand in filters only; 0 is a value that the sender does not
//! know.

use crate::wire::api;

api! {
    DescribeAcls, versions 1..=3, flexible 2..;

    /// Describes the ACLs that a filter matches.
    request DescribeAclsRequest<'a> {
        resource_type_filter: i8, 0..;
        /// The name of the resources; `None` for all.
        resource_name_filter: Option<&'a str>, 0.., nullable 0..;
        pattern_type_filter: i8 = 3, 1..;
        /// The principal; `None` for all.
        principal_filter: Option<&'a str>, 0.., nullable 0..;
        /// The host; `None` for all.
        host_filter: Option<&'a str>, 0.., nullable 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    /// The ACLs.
    response DescribeAclsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The resources that have ACLs.
        resources: Vec<DescribeAclsResource<'a>>, 0..;
    }

    /// A resource, or a pattern of names of resources.
    struct DescribeAclsResource<'a> {
        resource_type: i8, 0..;
        resource_name: &'a str, 0..;
        pattern_type: i8 = 3, 1..;
        acls: Vec<AclDescription<'a>>, 0..;
    }

    /// An ACL of a resource.
    struct AclDescription<'a> {
        /// The principal, as in `User:anna`.
        principal: &'a str, 0..;
        /// The host; `*` for all.
        host: &'a str, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }
}
