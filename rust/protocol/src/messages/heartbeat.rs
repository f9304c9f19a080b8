//! Heartbeat, API key 12, versions 0-4.
//!
//! 1 adds the throttle time, 3 static members (KIP-345). From 2 on, a broker answers before it throttles (KIP-219). 4 is
//! flexible.

use crate::wire::api;

api! {
    Heartbeat, versions 0..=4, flexible 4..;

    /// Tells that a member lives.
    request HeartbeatRequest<'a> {
        /// The group.
        group_id: &'a str, 0..;
        /// The member's generation.
        generation_id: i32, 0..;
        /// The member.
        member_id: &'a str, 0..;
        /// The static member, if it is one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
    }

    /// Tells whether it is to join again.
    response HeartbeatResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// The error, or 0: REBALANCE_IN_PROGRESS asks the member to join again.
        error_code: i16, 0..;
    }
}
