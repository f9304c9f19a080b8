//! LeaveGroup, API key 13, versions 0-5.
//!
//! Version 1 adds the throttle time. From 2 on, the broker responds before it throttles the client (KIP-219). 3 removes
//! several members at once, static ones too (KIP-345): the top-level member of the request up to 2 is then in a list. 4
//! is flexible. 5 adds the reason (KIP-800).

use crate::wire::api;

api! {
    LeaveGroup, versions 0..=5, flexible 4..;

    /// Removes members from a group.
    request LeaveGroupRequest<'a> {
        group_id: &'a str, 0..;
        member_id: &'a str, 0..=2;
        members: Vec<MemberIdentity<'a>>, 3..;
    }

    /// The result for each member.
    response LeaveGroupResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        /// The error of the whole request, or 0.
        error_code: i16, 0..;
        members: Vec<MemberResponse<'a>>, 3..;
    }

    /// A member that leaves.
    struct MemberIdentity<'a> {
        /// The member id; may be empty for a static member.
        member_id: &'a str, 3..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
        /// The reason for leaving.
        reason: Option<&'a str> = None, 5.., nullable 5.., ignorable;
    }

    /// The result for one member.
    struct MemberResponse<'a> {
        /// The member id of the request.
        member_id: &'a str, 3..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str>, 3.., nullable 3..;
        error_code: i16, 3..;
    }
}
