//! LeaveGroup, API key 13, versions 0-5.
//!
//! 1 adds the throttle time. From 2 on, a broker answers before it throttles (KIP-219). 3 takes several members out at
//! once, static ones too (KIP-345): what stands at the top of the request up to 2 then stands in each member. 4 is
//! flexible. 5 adds the reason (KIP-800).

use crate::wire::api;

api! {
    LeaveGroup, versions 0..=5, flexible 4..;

    /// Takes members out of a group.
    request LeaveGroupRequest<'a> {
        /// The group.
        group_id: &'a str, 0..;
        /// The member, up to version 2.
        member_id: &'a str, 0..=2;
        /// The members, from version 3.
        members: Vec<MemberIdentity<'a>>, 3..;
    }

    /// What became of each.
    response LeaveGroupResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// The error of the whole request, or 0.
        error_code: i16, 0..;
        /// The members, from version 3.
        members: Vec<MemberResponse<'a>>, 3..;
    }

    /// A member that leaves.
    struct MemberIdentity<'a> {
        /// Its id; may be empty for a static member.
        member_id: &'a str, 3..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
        /// Why it leaves.
        reason: Option<&'a str> = None, 5.., nullable 5.., ignorable;
    }

    /// A member's outcome.
    struct MemberResponse<'a> {
        /// Its id, as it was asked.
        member_id: &'a str, 3..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str>, 3.., nullable 3..;
        /// The error, or 0.
        error_code: i16, 3..;
    }
}
