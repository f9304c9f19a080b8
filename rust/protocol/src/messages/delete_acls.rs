//! DeleteAcls, API key 31, versions 1-3 (KIP-140; Kafka 4.0 removed 0).
//!
//! Version 1 adds pattern types (KIP-290). 2 is flexible. 3 adds resources of type user (KIP-373). The numbers of types
//! and operations are those of DescribeAcls.

use crate::wire::api;

api! {
    DeleteAcls, versions 1..=3, flexible 2..;

    /// Deletes the ACLs that filters match.
    request DeleteAclsRequest<'a> {
        filters: Vec<DeleteAclsFilter<'a>>, 0..;
    }

    /// The result for each filter.
    response DeleteAclsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The results, in the order of the request.
        filter_results: Vec<DeleteAclsFilterResult<'a>>, 0..;
    }

    /// A filter.
    struct DeleteAclsFilter<'a> {
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

    /// The result for one filter.
    struct DeleteAclsFilterResult<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The ACLs that matched.
        matching_acls: Vec<DeleteAclsMatchingAcl<'a>>, 0..;
    }

    /// An ACL that matched: it was deleted unless it has an error.
    struct DeleteAclsMatchingAcl<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        resource_type: i8, 0..;
        resource_name: &'a str, 0..;
        pattern_type: i8 = 3, 1..;
        principal: &'a str, 0..;
        host: &'a str, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }
}
