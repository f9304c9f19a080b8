//! JoinGroup, API key 11, versions 0-9.
//!
//! 1 adds the rebalance timeout, 2 the throttle time, 5 static members (KIP-345), 7 the protocol's type in the response
//! (KIP-559), 8 the reason (KIP-800). From 3 on, a broker answers before it throttles (KIP-219). From 4 on, who joins
//! without a member id is answered MEMBER_ID_REQUIRED and an id to join with (KIP-394). 6 is flexible. 9 tells a leader to
//! keep the assignment as it is (KIP-814).

use crate::wire::api;

api! {
    JoinGroup, versions 0..=9, flexible 6..;

    /// Joins a group, or joins it again.
    request JoinGroupRequest<'a> {
        /// The group.
        group_id: &'a str, 0..;
        /// How long the member may be silent before it is dropped.
        session_timeout_ms: i32, 0..;
        /// How long a rebalance waits for the member; -1 in version 0, where the session timeout counts.
        rebalance_timeout_ms: i32 = -1, 1.., ignorable;
        /// The member; empty for one that has no id yet.
        member_id: &'a str, 0..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 5.., nullable 5..;
        /// What kind of group it is, such as `consumer`.
        protocol_type: &'a str, 0..;
        /// The protocols that the member can follow, the dearest first: for consumers, its assignors.
        protocols: Vec<JoinGroupRequestProtocol<'a>>, 0..;
        /// Why it joins.
        reason: Option<&'a str> = None, 8.., nullable 8.., ignorable;
    }

    /// The generation that came of it.
    response JoinGroupResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 2.., ignorable;
        /// The error, or 0.
        error_code: i16, 0..;
        /// The generation, or -1.
        generation_id: i32 = -1, 0..;
        /// What kind of group it is.
        protocol_type: Option<&'a str> = None, 7.., nullable 7.., ignorable;
        /// The protocol that all members can follow, and that was chosen.
        protocol_name: Option<&'a str>, 0.., nullable 7..;
        /// The member that assigns.
        leader: &'a str, 0..;
        /// Whether the leader is to leave the assignment as it is.
        skip_assignment: bool, 9..;
        /// The member's own id.
        member_id: &'a str, 0..;
        /// All members, for the leader; empty for the others.
        members: Vec<JoinGroupResponseMember<'a>>, 0..;
    }

    /// A protocol that a member can follow.
    struct JoinGroupRequestProtocol<'a> {
        /// Its name.
        name: &'a str, 0..;
        /// What the leader is to know, in the protocol's own format: for consumers, the subscription.
        metadata: &'a [u8], 0..;
    }

    /// A member, as the leader sees it.
    struct JoinGroupResponseMember<'a> {
        /// Its id.
        member_id: &'a str, 0..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 5.., nullable 5.., ignorable;
        /// Its metadata for the chosen protocol.
        metadata: &'a [u8], 0..;
    }
}
