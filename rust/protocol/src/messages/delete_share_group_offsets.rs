//! DeleteShareGroupOffsets, API key 92, version 0, flexible (KIP-932).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DeleteShareGroupOffsets, versions 0..=0, flexible 0..;

    /// Removes topics from a share group without members.
    request DeleteShareGroupOffsetsRequest<'a> {
        group_id: &'a str, 0..;
        topics: Vec<DeleteShareGroupOffsetsRequestTopic<'a>>, 0..;
    }

    /// The outcome for each topic.
    response DeleteShareGroupOffsetsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        responses: Vec<DeleteShareGroupOffsetsResponseTopic<'a>>, 0..;
    }

    /// A topic of the request.
    struct DeleteShareGroupOffsetsRequestTopic<'a> {
        topic_name: &'a str, 0..;
    }

    /// A topic's outcome.
    struct DeleteShareGroupOffsetsResponseTopic<'a> {
        topic_name: &'a str, 0..;
        topic_id: Uuid, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
    }
}
