//! DeleteTopics, API key 20, versions 1-6 (Kafka 4.0 removed 0).
//!
//! Version 2 makes the broker respond before it throttles the client (KIP-219). 3 may return TOPIC_DELETION_DISABLED
//! (KIP-322). 4 is flexible. 5 adds error messages, and may return THROTTLING_QUOTA_EXCEEDED (KIP-599). 6 takes topic
//! ids as well as names (KIP-516).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DeleteTopics, versions 1..=6, flexible 4..;

    /// Deletes topics.
    request DeleteTopicsRequest<'a> {
        topics: Vec<DeleteTopicState<'a>>, 6..;
        topic_names: Vec<&'a str>, 0..=5, ignorable;
        /// The longest time that the broker waits for the topics to be deleted, in milliseconds.
        timeout_ms: i32, 0..;
    }

    /// The result for each topic.
    response DeleteTopicsResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        responses: Vec<DeletableTopicResult<'a>>, 0..;
    }

    /// A topic to delete, by name or by id.
    struct DeleteTopicState<'a> {
        /// The topic's name; `None` if it is given by id.
        name: Option<&'a str> = None, 6.., nullable 6..;
        /// The topic's id; zero if it is given by name.
        topic_id: Uuid, 6..;
    }

    /// The result for one topic.
    struct DeletableTopicResult<'a> {
        /// The topic's name; `None` for an id that no topic has, or whose name the client is not authorized to see.
        name: Option<&'a str>, 0.., nullable 6..;
        topic_id: Uuid, 6.., ignorable;
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 5.., nullable 5.., ignorable;
    }
}
