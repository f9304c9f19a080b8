//! SyncGroup, API key 14, versions 0-5.
//!
//! Version 1 adds the throttle time, 3 static members (KIP-345). From 2 on, the broker responds before it throttles the
//! client (KIP-219). 4 is flexible. 5 adds the protocol to request and response; the coordinator rejects a member that
//! expects another protocol than the group's (KIP-559).

use crate::wire::api;

api! {
    SyncGroup, versions 0..=5, flexible 4..;

    /// Asks for the member's own assignment. The leader sends the assignments of all members.
    request SyncGroupRequest<'a> {
        group_id: &'a str, 0..;
        /// The member's generation.
        generation_id: i32, 0..;
        member_id: &'a str, 0..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
        /// The protocol type that the member expects.
        protocol_type: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The protocol that the member expects.
        protocol_name: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The assignments, from the leader; empty from other members.
        assignments: Vec<SyncGroupRequestAssignment<'a>>, 0..;
    }

    /// The assignment.
    response SyncGroupResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        error_code: i16, 0..;
        protocol_type: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The protocol that the coordinator selected.
        protocol_name: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The assignment, in the protocol's own format.
        assignment: &'a [u8], 0..;
    }

    /// The assignment of one member.
    struct SyncGroupRequestAssignment<'a> {
        member_id: &'a str, 0..;
        /// The member's assignment, in the protocol's own format.
        assignment: &'a [u8], 0..;
    }
}
