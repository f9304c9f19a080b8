//! ListGroups, API key 16, versions 0-5.
//!
//! Version 1 adds the throttle time. From 2 on, the broker responds before it throttles the client (KIP-219). 3 is
//! flexible. 4 adds states and a filter by state (KIP-518), 5 types and a filter by type (KIP-848).

use crate::wire::api;

api! {
    ListGroups, versions 0..=5, flexible 3..;

    /// Lists the groups that a broker coordinates.
    request ListGroupsRequest<'a> {
        /// The states to list; empty for all.
        states_filter: Vec<&'a str>, 4..;
        /// The types to list; empty for all.
        types_filter: Vec<&'a str>, 5..;
    }

    /// The groups.
    response ListGroupsResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        error_code: i16, 0..;
        /// The groups that match the filters.
        groups: Vec<ListedGroup<'a>>, 0..;
    }

    /// A group.
    struct ListedGroup<'a> {
        group_id: &'a str, 0..;
        /// The protocol type, such as `consumer`; empty for a group that only stores offsets.
        protocol_type: &'a str, 0..;
        /// The group's state, such as `Stable`.
        group_state: &'a str, 4.., ignorable;
        /// The group type, such as `classic` or `consumer`.
        group_type: &'a str, 5.., ignorable;
    }
}
