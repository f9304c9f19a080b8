//! Each error code in the answer to each call: the member reacts as the table says (req S121).

use monedula_engine::group::consumer::{ConsumerState, api, known_errors, reaction};
use monedula_engine::group::{CallId, CallKind, CommitError, GroupResponse, Input, Reaction};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, World, by_hand, commit_codes, coordinator, ids, offsets, refused};

const LEAVING: &str = "ConsumerGroupHeartbeat, leaving";
/// The calls of a member under KIP-848.
const CALLS: [CallKind; 5] = [
    CallKind::FindCoordinator,
    CallKind::Heartbeat,
    CallKind::LeaveGroup,
    CallKind::OffsetCommit,
    CallKind::OffsetFetch,
];
const TICKET: u64 = 77;

/// All of Kafka's codes, and some unknown ones.
fn codes() -> impl Iterator<Item = ErrorCode> {
    (-1..=150).chain([i16::MAX, i16::MIN]).filter(|code| *code != 0).map(ErrorCode::from_code)
}

/// A member with a call of this API in flight. It owns t-0 and t-1, except in its first call.
fn pending(api: &str) -> (World, CallId) {
    let mut world = match api {
        "FindCoordinator" => {
            let mut world = World::new(by_hand());
            world.subscribe(&["t"]);
            world
        }
        "OffsetFetch" => {
            let mut world = World::subscribed(by_hand());
            world.assigned(1, &ids(&[0, 1]));
            world
        }
        _ => World::stable(by_hand(), &[0, 1]),
    };
    match api {
        "ConsumerGroupHeartbeat" => world.pass(crate::world::INTERVAL),
        LEAVING => world.put(Input::Unsubscribe),
        "OffsetCommit" => world.commit(TICKET, offsets(&[(0, 20)])),
        _ => {}
    }
    let (id, _) = world.call(wire(api));
    world.no_call();
    world.trace();
    (world, id)
}

fn wire(api: &str) -> &str {
    if api == LEAVING { "ConsumerGroupHeartbeat" } else { api }
}

fn failed(api: &str, code: ErrorCode) -> GroupResponse {
    match api {
        "FindCoordinator" => coordinator(code, -1),
        "OffsetCommit" => commit_codes(&offsets(&[(0, 20)]), code),
        "OffsetFetch" => GroupResponse::OffsetFetch { code, offsets: [].into() },
        _ => refused(code),
    }
}

/// The reaction that the outputs show.
fn seen(api: &str, code: ErrorCode) -> Reaction {
    let (mut world, id) = pending(api);
    world.answer(id, failed(api, code));
    if world.state() == ConsumerState::Fatal {
        assert!(matches!(world.raised[..], [(_, true)]), "{api} {code}");
        return Reaction::Fail;
    }
    if api == LEAVING && world.state() == ConsumerState::Unsubscribed {
        return Reaction::Done;
    }
    let trace = world.trace();
    let refused = world.outcome(TICKET).is_some().then(|| world.commit_error(TICKET));
    if refused == Some(CommitError::MemberGone { code }) {
        assert_eq!(world.owned(), [0, 1], "{api} {code}");
        return Reaction::Gone;
    }
    if !world.raised.is_empty()
        || refused == Some(CommitError::Refused { code })
        || trace.iter().any(|line| line.starts_with("start of t-0 failed"))
    {
        assert_eq!(world.owned(), [0, 1], "{api} {code}");
        return Reaction::Report;
    }
    if trace.iter().any(|line| line.starts_with("Lost")) {
        let (id, call) = world.heartbeat();
        assert_eq!(call.epoch, 0);
        // The same answer to a join distinguishes the two.
        world.answer(id, failed(api, code));
        return if world.state() == ConsumerState::Fatal { Reaction::FallBack } else { Reaction::Fence };
    }
    if world.apis() == ["FindCoordinator"] && api != "FindCoordinator" {
        world.find(2);
        world.pass(BACKOFF);
        world.call(wire(api));
        return Reaction::Rediscover;
    }
    // Nothing at once; after a backoff the same call, or a heartbeat first.
    world.no_call();
    world.pass(BACKOFF);
    if world.apis() == ["ConsumerGroupHeartbeat"] && api.starts_with("Offset") {
        let (id, _) = world.heartbeat();
        world.ok(id, 2, None);
        world.call(api);
        return Reaction::AfterHeartbeat;
    }
    world.call(wire(api));
    if api != "FindCoordinator" {
        assert_eq!(world.member.status().coordinator, Some(1), "{api} {code}");
    }
    Reaction::Retry
}

// req: S121
#[test]
fn every_code_of_every_call_leads_to_what_the_table_says() {
    for kind in CALLS {
        for code in codes() {
            assert_eq!(seen(api(kind), code), reaction(kind, code), "{kind:?} {code} ({})", code.code());
        }
    }
}

#[test]
fn all_that_kafka_calls_retriable_is_retried() {
    for kind in CALLS {
        for code in codes().filter(|code| code.is_retriable()) {
            let retried = matches!(reaction(kind, code), Reaction::Retry | Reaction::Rediscover);
            // A topic that does not exist has no offsets to wait for: Java's consumer raises it as well.
            let missing = match kind {
                CallKind::OffsetFetch => code == ErrorCode::UnknownTopicOrPartition,
                CallKind::OffsetCommit => {
                    matches!(code, ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)
                }
                _ => false,
            };
            assert_eq!(retried, !missing, "{kind:?} {code}");
        }
    }
}

#[test]
fn the_codes_of_each_call_are_in_order_and_only_these_calls_have_some() {
    for kind in CallKind::ALL {
        assert!(known_errors(kind).is_sorted_by(|(a, _), (b, _)| a.code() < b.code()), "{kind:?}");
        assert_eq!(known_errors(kind).is_empty(), !CALLS.contains(&kind), "{kind:?}");
    }
}
