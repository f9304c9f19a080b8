//! Headers of requests (versions 1-2) and responses (0-1).
//!
//! The second of each has tagged fields (KIP-482). [`crate::frame`] knows which one a message takes.

use crate::wire::message;

message! {
    /// What stands before the body of a request.
    RequestHeader<'a>, versions 1..=2, flexible 2..;

    /// The API that is called.
    request_api_key: i16, 0..;
    /// The version of the body.
    request_api_version: i16, 0..;
    /// Chosen by the client, returned by the broker.
    correlation_id: i32, 0..;
    /// What the client calls itself, for quotas and logs. It keeps the old length in version 2, so that
    /// any broker can read the header of an ApiVersions request.
    client_id: Option<&'a str>, 1.., nullable 1.., inflexible;
}

message! {
    /// What stands before the body of a response.
    ResponseHeader<'a>, versions 0..=1, flexible 1..;

    /// That of the request.
    correlation_id: i32, 0..;
}
