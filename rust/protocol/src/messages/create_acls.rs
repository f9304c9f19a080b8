//! CreateAcls, API key 30, versions 1-3 (KIP-140; Kafka 4.0 removed 0).
//!
//! Version 1 adds pattern types (KIP-290). 2 is flexible. 3 adds resources of type user (KIP-373). The numbers of types
//! and operations are those of DescribeAcls.

use crate::wire::api;

api! {
    CreateAcls, versions 1..=3, flexible 2..;

    /// Creates ACLs.
    request CreateAclsRequest<'a> {
        creations: Vec<AclCreation<'a>>, 0..;
    }

    /// The result for each ACL.
    response CreateAclsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The results, in the order of the request.
        results: Vec<AclCreationResult<'a>>, 0..;
    }

    /// An ACL to create.
    struct AclCreation<'a> {
        resource_type: i8, 0..;
        resource_name: &'a str, 0..;
        resource_pattern_type: i8 = 3, 1..;
        /// The principal, as in `User:anna`.
        principal: &'a str, 0..;
        /// The host; `*` for all.
        host: &'a str, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    /// The result for one ACL.
    struct AclCreationResult<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
    }
}
