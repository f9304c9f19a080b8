//! SyncGroup, API key 14, versions 0-5.
//!
//! 1 adds the throttle time, 3 static members (KIP-345). From 2 on, a broker answers before it throttles (KIP-219). 4 is
//! flexible. 5 names the protocol on both sides, and whoever names another than the group's is refused (KIP-559).

use crate::wire::api;

api! {
    SyncGroup, versions 0..=5, flexible 4..;

    /// Asks for a member's assignment; the leader brings those of all members.
    request SyncGroupRequest<'a> {
        /// The group.
        group_id: &'a str, 0..;
        /// The member's generation.
        generation_id: i32, 0..;
        /// The member.
        member_id: &'a str, 0..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
        /// What kind of group the member takes it for.
        protocol_type: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The protocol that the member follows.
        protocol_name: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The assignments, from the leader; empty from the others.
        assignments: Vec<SyncGroupRequestAssignment<'a>>, 0..;
    }

    /// The assignment.
    response SyncGroupResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What kind of group it is.
        protocol_type: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The protocol that was chosen.
        protocol_name: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The assignment, in the protocol's own format.
        assignment: &'a [u8], 0..;
    }

    /// What the leader gives to one member.
    struct SyncGroupRequestAssignment<'a> {
        /// The member.
        member_id: &'a str, 0..;
        /// Its assignment, in the protocol's own format.
        assignment: &'a [u8], 0..;
    }
}
