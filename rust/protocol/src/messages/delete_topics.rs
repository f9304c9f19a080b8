//! DeleteTopics, API key 20, versions 1-6 (Kafka 4.0 removed 0).
//!
//! From 2 the answer comes before a throttled client is muted (KIP-219). 3 may answer TOPIC_DELETION_DISABLED
//! (KIP-322). 4 is flexible. 5 adds error messages, and may answer THROTTLING_QUOTA_EXCEEDED (KIP-599). 6 takes topic
//! ids as well as names (KIP-516).

use crate::types::Uuid;
use crate::wire::api;

api! {
    DeleteTopics, versions 1..=6, flexible 4..;

    /// Deletes topics.
    request DeleteTopicsRequest<'a> {
        /// The topics, from version 6.
        topics: Vec<DeleteTopicState<'a>>, 6..;
        /// Their names, up to version 5.
        topic_names: Vec<&'a str>, 0..=5, ignorable;
        /// How long the broker may wait until they are gone.
        timeout_ms: i32, 0..;
    }

    /// What became of each.
    response DeleteTopicsResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 1.., ignorable;
        /// The topics.
        responses: Vec<DeletableTopicResult<'a>>, 0..;
    }

    /// A topic to delete, by name or by id.
    struct DeleteTopicState<'a> {
        /// Its name; `None` with an id.
        name: Option<&'a str> = None, 6.., nullable 6..;
        /// Its id; zero with a name.
        topic_id: Uuid, 6..;
    }

    /// A topic's outcome.
    struct DeletableTopicResult<'a> {
        /// Its name; `None` for an id that the client may not see the name of, or that no topic has.
        name: Option<&'a str>, 0.., nullable 6..;
        /// Its id.
        topic_id: Uuid, 6.., ignorable;
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str> = None, 5.., nullable 5.., ignorable;
    }
}
