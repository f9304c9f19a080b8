//! Each error code in the answer to each call: the member reacts as the table says (req S121).

use monedula_engine::group::classic::{ClassicState, known_errors, reaction};
use monedula_engine::group::{CallKind, CommitError, Reaction};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::{APIS, TICKET, again, failed, pending};
use crate::world::{BACKOFF, identity};

/// All of Kafka's codes, and some unknown ones.
fn codes() -> impl Iterator<Item = ErrorCode> {
    (-1..=150).chain([i16::MAX, i16::MIN]).filter(|code| *code != 0).map(ErrorCode::from_code)
}

/// The reaction that the outputs show.
fn seen(api: &str, code: ErrorCode) -> Reaction {
    let (mut world, id, _) = pending(api);
    world.answer(id, failed(api, code));
    if world.state() == ClassicState::Fatal {
        assert!(matches!(world.raised[..], [(_, true)]), "{api} {code}");
        return Reaction::Fail;
    }
    assert_eq!(world.raised, [], "{api} {code}");
    if api == "LeaveGroup" && world.state() == ClassicState::Unsubscribed {
        return Reaction::Done;
    }
    let trace = world.trace();
    let told = trace.iter().any(|line| line.starts_with("start of t-0 failed"))
        || world.outcome(TICKET).is_some_and(|_| world.commit_error(TICKET) == CommitError::Refused { code });
    if told {
        world.pass(BACKOFF);
        if api == "OffsetFetch" {
            // It may succeed later.
            world.call(api);
        }
        world.no_call();
        assert_eq!(world.owned(), [0, 1], "{api} {code}");
        return Reaction::Report;
    }
    if trace.iter().any(|line| line.starts_with("Lost")) {
        world.pass(BACKOFF);
        let (_, call) = world.call("JoinGroup");
        return if identity(&call).0.is_empty() { Reaction::DropMember } else { Reaction::DropGeneration };
    }
    if world.apis() == ["FindCoordinator"] && api != "FindCoordinator" {
        world.find(2);
        world.pass(BACKOFF);
        world.call(again(api));
        return Reaction::Rediscover;
    }
    if world.apis() == ["JoinGroup"] {
        let (_, call) = world.call("JoinGroup");
        return match identity(&call).0 {
            "given" => Reaction::TakeMemberId,
            _ => Reaction::Rejoin,
        };
    }
    // Nothing at once; after a backoff, the same call.
    world.no_call();
    world.pass(BACKOFF);
    let (_, call) = world.call(again(api));
    if api != "FindCoordinator" {
        assert_eq!(world.member.status().coordinator, Some(1), "{api} {code}");
    }
    if call.api() == api { Reaction::Retry } else { Reaction::Rejoin }
}

// req: S121
#[test]
fn every_code_of_every_call_leads_to_what_the_table_says() {
    for kind in CallKind::ALL {
        for code in codes() {
            // The member owns nothing that it could lose, and has no id yet. A member with an id is tested below.
            if kind == CallKind::JoinGroup && code == ErrorCode::MemberIdRequired {
                continue;
            }
            assert_eq!(seen(kind.name(), code), reaction(kind, code), "{kind:?} {code} ({})", code.code());
        }
    }
}

#[test]
fn a_member_id_that_is_required_is_taken() {
    let mut world =
        crate::world::World::subscribed(crate::world::config(monedula_engine::assign::Protocol::Cooperative));
    let (id, _) = world.call("JoinGroup");
    world.answer(id, failed("JoinGroup", ErrorCode::MemberIdRequired));
    assert_eq!(identity(&world.call("JoinGroup").1).0, "given");
    assert_eq!(reaction(CallKind::JoinGroup, ErrorCode::MemberIdRequired), Reaction::TakeMemberId);
}

#[test]
fn all_that_kafka_calls_retriable_is_retried() {
    for kind in CallKind::ALL {
        for code in codes().filter(|code| code.is_retriable()) {
            let retried = matches!(reaction(kind, code), Reaction::Retry | Reaction::Rediscover | Reaction::Rejoin);
            // A topic that does not exist has no committed offset to wait for: Java's consumer raises it as well.
            let missing = kind == CallKind::OffsetFetch && code == ErrorCode::UnknownTopicOrPartition;
            assert_eq!(retried, !missing, "{kind:?} {code}");
        }
    }
}

#[test]
fn the_codes_of_each_call_are_in_order_and_each_call_has_a_test() {
    assert_eq!(CallKind::ALL.map(CallKind::name), APIS);
    for kind in CallKind::ALL {
        assert!(known_errors(kind).is_sorted_by(|(a, _), (b, _)| a.code() < b.code()), "{kind:?}");
    }
}
