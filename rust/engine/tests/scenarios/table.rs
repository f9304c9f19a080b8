//! The reaction to each error code in a Fetch answer: every code of the table is tested.

use monedula_engine::fetch::Output;
use monedula_protocol::error_code::ErrorCode;

use crate::world::{World, asked, error, ms};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// Metadata is refreshed, and the partition is fetched again after a backoff.
    RefreshAndRetry,
    /// Both ends of the log are looked up.
    LookUp,
    /// The partition stops.
    Stop,
}

const PARTITION_ERRORS: &[(ErrorCode, Reaction)] = &[
    (ErrorCode::UnknownServerError, Reaction::RefreshAndRetry),
    (ErrorCode::OffsetOutOfRange, Reaction::LookUp),
    (ErrorCode::CorruptMessage, Reaction::Stop),
    (ErrorCode::UnknownTopicOrPartition, Reaction::RefreshAndRetry),
    (ErrorCode::LeaderNotAvailable, Reaction::RefreshAndRetry),
    (ErrorCode::NotLeaderOrFollower, Reaction::RefreshAndRetry),
    (ErrorCode::ReplicaNotAvailable, Reaction::RefreshAndRetry),
    (ErrorCode::TopicAuthorizationFailed, Reaction::Stop),
    (ErrorCode::UnsupportedVersion, Reaction::Stop),
    (ErrorCode::KafkaStorageError, Reaction::RefreshAndRetry),
    (ErrorCode::FencedLeaderEpoch, Reaction::RefreshAndRetry),
    (ErrorCode::UnknownLeaderEpoch, Reaction::RefreshAndRetry),
    (ErrorCode::UnsupportedCompressionType, Reaction::Stop),
    (ErrorCode::OffsetNotAvailable, Reaction::RefreshAndRetry),
    (ErrorCode::UnknownTopicId, Reaction::RefreshAndRetry),
    (ErrorCode::InconsistentTopicId, Reaction::RefreshAndRetry),
];

#[test]
fn every_error_of_a_partition_leads_to_what_the_table_says() {
    for &(code, expected) in PARTITION_ERRORS {
        let mut world = World::reading(&[1]);
        world.fetch(1);
        assert_eq!(world.answer(1, vec![error(0, code)]), vec![], "{code}");
        let outputs = world.outputs();
        let reaction = match outputs[..] {
            [Output::RefreshMetadata] => Reaction::RefreshAndRetry,
            [Output::ListLogRange { .. }] => Reaction::LookUp,
            [Output::Stopped { .. }] => Reaction::Stop,
            _ => panic!("{code}: {outputs:?}"),
        };
        assert_eq!(reaction, expected, "{code}");
        assert!(world.try_fetch(1).is_none(), "{code} is asked again at once");
        world.advance(ms(130));
        let asked_again = world.try_fetch(1).is_some_and(|plan| asked(&plan, 0) == Some(0));
        assert_eq!(asked_again, expected == Reaction::RefreshAndRetry, "{code}");
    }
}

#[test]
fn every_error_of_the_whole_request_opens_another_session() {
    let at_once =
        [ErrorCode::FetchSessionIdNotFound, ErrorCode::InvalidFetchSessionEpoch, ErrorCode::FetchSessionTopicIdError];
    let later = [ErrorCode::UnknownServerError, ErrorCode::KafkaStorageError, ErrorCode::UnsupportedVersion];
    for code in at_once.into_iter().chain(later) {
        let mut world = World::reading(&[1]);
        world.fetch(1);
        world.answer(1, vec![]);
        world.fetch(1);
        world.refuse(1, code);
        world.advance(ms(250));
        let plan = world.fetch(1);
        assert_eq!((plan.session_epoch, asked(&plan, 0)), (0, Some(0)), "{code}");
    }
}
