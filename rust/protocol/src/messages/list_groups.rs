//! ListGroups, API key 16, versions 0-5.
//!
//! 1 adds the throttle time. From 2 on, a broker answers before it throttles (KIP-219). 3 is flexible. 4 adds states and
//! a filter for them (KIP-518), 5 types and theirs (KIP-848).

use crate::wire::api;

api! {
    ListGroups, versions 0..=5, flexible 3..;

    /// Asks which groups a broker coordinates.
    request ListGroupsRequest<'a> {
        /// The states to list; empty for all.
        states_filter: Vec<&'a str>, 4..;
        /// The types to list; empty for all.
        types_filter: Vec<&'a str>, 5..;
    }

    /// The groups.
    response ListGroupsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// The error, or 0.
        error_code: i16, 0..;
        /// Those that pass the filters.
        groups: Vec<ListedGroup<'a>>, 0..;
    }

    /// A group.
    struct ListedGroup<'a> {
        /// Its id.
        group_id: &'a str, 0..;
        /// What kind of clients it has, such as `consumer`; empty where it only keeps offsets.
        protocol_type: &'a str, 0..;
        /// Its state, such as `Stable`.
        group_state: &'a str, 4.., ignorable;
        /// Which protocol it runs, such as `classic` or `consumer`.
        group_type: &'a str, 5.., ignorable;
    }
}
