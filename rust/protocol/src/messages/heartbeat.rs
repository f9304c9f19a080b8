//! Heartbeat, API key 12, versions 0-4.
//!
//! Version 1 adds the throttle time, 3 static members (KIP-345). From 2 on, the broker responds before it throttles the
//! client (KIP-219). 4 is flexible.

use crate::wire::api;

api! {
    Heartbeat, versions 0..=4, flexible 4..;

    /// Keeps a member of a classic group alive.
    request HeartbeatRequest<'a> {
        group_id: &'a str, 0..;
        /// The member's generation.
        generation_id: i32, 0..;
        member_id: &'a str, 0..;
        /// The group instance id of a static member; `None` for a dynamic one.
        group_instance_id: Option<&'a str> = None, 3.., nullable 3..;
    }

    /// The result; the error says whether the member must rejoin.
    response HeartbeatResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        /// The error, or 0; REBALANCE_IN_PROGRESS if the member must rejoin.
        error_code: i16, 0..;
    }
}
