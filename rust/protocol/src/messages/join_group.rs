//! JoinGroup, API key 11, versions 0-9.
//!
//! Version 1 adds the rebalance timeout, 2 the throttle time, 5 static members (KIP-345), 7 the protocol type in the
//! response (KIP-559), 8 the reason (KIP-800). From 3 on, the broker responds before it throttles the client (KIP-219).
//! From 4 on, the response to a request without a member id is MEMBER_ID_REQUIRED and an id with which to join
//! (KIP-394). 6 is flexible. 9 lets the broker tell the leader to keep the current assignment (KIP-814).

use crate::wire::api;

api! {
    JoinGroup, versions 0..=9, flexible 6..;

    /// Joins or rejoins a classic group.
    request JoinGroupRequest<'a> {
        group_id: &'a str, 0..;
        /// The session timeout in milliseconds, after which the coordinator removes a member that sends no heartbeat.
        session_timeout_ms: i32, 0..;
        /// The time for which a rebalance waits for the member to rejoin, in milliseconds; -1 in version 0, where the
        /// session timeout applies.
        rebalance_timeout_ms: i32 = -1, 1.., ignorable;
        /// The member id; empty for a member that has none yet.
        member_id: &'a str, 0..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 5.., nullable 5..;
        /// The protocol type, such as `consumer`.
        protocol_type: &'a str, 0..;
        /// The protocols that the member supports, the preferred one first: for consumers, its assignors.
        protocols: Vec<JoinGroupRequestProtocol<'a>>, 0..;
        /// The reason for joining.
        reason: Option<&'a str> = None, 8.., nullable 8.., ignorable;
    }

    /// The new generation.
    response JoinGroupResponse<'a> {
        throttle_time_ms: i32, 2.., ignorable;
        error_code: i16, 0..;
        /// The generation, or -1.
        generation_id: i32 = -1, 0..;
        protocol_type: Option<&'a str> = None, 7.., nullable 7.., ignorable;
        /// The protocol that the coordinator selected among those that all members support.
        protocol_name: Option<&'a str>, 0.., nullable 7..;
        /// The member id of the leader, which computes the assignment.
        leader: &'a str, 0..;
        /// True if the leader must not compute an assignment: the current one stays (KIP-814).
        skip_assignment: bool, 9..;
        member_id: &'a str, 0..;
        /// The members, for the leader; empty for the others.
        members: Vec<JoinGroupResponseMember<'a>>, 0..;
    }

    /// A protocol that a member supports.
    struct JoinGroupRequestProtocol<'a> {
        name: &'a str, 0..;
        /// The member's metadata in the protocol's own format: for consumers, the subscription.
        metadata: &'a [u8], 0..;
    }

    /// A member with its metadata, for the leader.
    struct JoinGroupResponseMember<'a> {
        member_id: &'a str, 0..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// The member's metadata for the selected protocol.
        metadata: &'a [u8], 0..;
    }
}
