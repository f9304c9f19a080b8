//! The headers of requests (versions 1-2) and responses (0-1).
//!
//! The higher version of each adds tagged fields (KIP-482). [`crate::frame`] chooses the version for a message.

use crate::wire::message;

message! {
    /// The header of a request.
    RequestHeader<'a>, versions 1..=2, flexible 2..;

    request_api_key: i16, 0..;
    /// The version of the body.
    request_api_version: i16, 0..;
    /// A number that the client chooses, and the broker returns in the response.
    correlation_id: i32, 0..;
    /// The client's name, for quotas and logs. It keeps the old length prefix in version 2, so that
    /// any broker can read the header of an ApiVersions request.
    client_id: Option<&'a str>, 1.., nullable 1.., inflexible;
}

message! {
    /// The header of a response.
    ResponseHeader<'a>, versions 0..=1, flexible 1..;

    /// The correlation id of the request.
    correlation_id: i32, 0..;
}
