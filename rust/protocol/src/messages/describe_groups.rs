//! DescribeGroups, API key 15, versions 0-6.
//!
//! Version 1 adds the throttle time, 3 authorized operations (KIP-430), 4 static members (KIP-345). From 2 on, the
//! broker responds before it throttles the client (KIP-219). 5 is flexible. 6 adds error messages, and returns
//! GROUP_ID_NOT_FOUND for a group that lower versions return as dead (KIP-1043).

use crate::wire::api;

api! {
    DescribeGroups, versions 0..=6, flexible 5..;

    /// Describes classic groups.
    request DescribeGroupsRequest<'a> {
        groups: Vec<&'a str>, 0..;
        /// True to include the operations that the client is authorized to perform on each group.
        include_authorized_operations: bool, 3..;
    }

    /// The groups.
    response DescribeGroupsResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        /// The groups of the request.
        groups: Vec<DescribedGroup<'a>>, 0..;
    }

    /// A group.
    struct DescribedGroup<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 6.., nullable 6..;
        group_id: &'a str, 0..;
        /// The group's state, such as `Stable`; empty with an error.
        group_state: &'a str, 0..;
        /// The protocol type, such as `consumer`; may be empty.
        protocol_type: &'a str, 0..;
        /// The protocol that the coordinator selected; empty unless the group is stable.
        protocol_data: &'a str, 0..;
        members: Vec<DescribedGroupMember<'a>>, 0..;
        /// The operations that the client is authorized to perform, a bit for each; `i32::MIN` if not requested.
        authorized_operations: i32 = i32::MIN, 3..;
    }

    /// A member.
    struct DescribedGroupMember<'a> {
        member_id: &'a str, 0..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 4.., nullable 4.., ignorable;
        /// The client id that it joined with.
        client_id: &'a str, 0..;
        /// The address that it joined from.
        client_host: &'a str, 0..;
        /// The member's metadata for the protocol; empty unless the group is stable.
        member_metadata: &'a [u8], 0..;
        /// The member's assignment; empty unless the group is stable.
        member_assignment: &'a [u8], 0..;
    }
}
