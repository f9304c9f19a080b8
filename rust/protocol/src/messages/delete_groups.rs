//! DeleteGroups, API key 42, versions 0-3 (KIP-229).
//!
//! Version 1 makes the broker respond before it throttles the client (KIP-219). 2 is flexible. 3 adds the error
//! message.

use crate::wire::api;

api! {
    DeleteGroups, versions 0..=3, flexible 2..;

    /// Deletes groups without members, and their offsets.
    request DeleteGroupsRequest<'a> {
        groups_names: Vec<&'a str>, 0..;
    }

    /// The result for each group.
    response DeleteGroupsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<DeletableGroupResult<'a>>, 0..;
    }

    /// The result for one group.
    struct DeletableGroupResult<'a> {
        group_id: &'a str, 0..;
        /// The error, or 0; NON_EMPTY_GROUP if the group has members.
        error_code: i16, 0..;
        /// The error message, if any.
        error_message: Option<&'a str> = None, 3.., nullable 3.., ignorable;
    }
}
