//! DeleteGroups, API key 42, versions 0-3 (KIP-229).
//!
//! From 1 on, a broker answers before it throttles (KIP-219). 2 is flexible. 3 adds the error message.

use crate::wire::api;

api! {
    DeleteGroups, versions 0..=3, flexible 2..;

    /// Deletes groups without members, and their offsets.
    request DeleteGroupsRequest<'a> {
        /// The groups.
        groups_names: Vec<&'a str>, 0..;
    }

    /// What became of each.
    response DeleteGroupsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// The groups.
        results: Vec<DeletableGroupResult<'a>>, 0..;
    }

    /// A group's outcome.
    struct DeletableGroupResult<'a> {
        /// Its id.
        group_id: &'a str, 0..;
        /// The error, or 0: NON_EMPTY_GROUP where it has members.
        error_code: i16, 0..;
        /// What the broker says of it, if anything.
        error_message: Option<&'a str> = None, 3.., nullable 3.., ignorable;
    }
}
