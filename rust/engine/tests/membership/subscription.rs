//! Subscriptions: names, the client's patterns, and the broker's patterns.

use monedula_engine::group::Input;
use monedula_engine::group::consumer::ConsumerState;
use monedula_protocol::error_code::ErrorCode;

use crate::world::{BACKOFF, World, by_hand, config, ids, is_full, names, of};

#[test]
fn a_change_is_told_at_once_and_only_the_change() {
    let mut world = World::stable(config(), &[0]);
    world.subscribe(&["t", "u"]);
    let (id, call) = world.heartbeat();
    assert_eq!((call.topics.clone(), call.owned.clone(), call.regex.clone()), (Some(names(&["t", "u"])), None, None));
    assert!(!is_full(&call));
    world.ok(id, 1, None);
    world.subscribe(&["t", "u"]);
    world.no_call();
}

#[test]
fn a_change_while_a_heartbeat_is_out_is_told_by_the_next() {
    let mut world = World::stable(config(), &[0]);
    let (id, _) = world.next_heartbeat();
    world.subscribe(&["u"]);
    world.no_call();
    world.ok(id, 1, None);
    assert_eq!(world.heartbeat().1.topics, Some(names(&["u"])));
}

#[test]
fn a_pattern_of_the_broker_is_sent_as_it_is() {
    let mut world = World::new(config());
    world.subscribe_regex(r"^t\p{Greek}(?i)[[:alpha:]]$");
    world.find(1);
    let (id, call) = world.heartbeat();
    assert_eq!(call.regex.as_deref(), Some(r"^t\p{Greek}(?i)[[:alpha:]]$"));
    assert_eq!(call.topics, Some(names(&[])));
    world.ok(id, 1, None);
    let (id, call) = world.next_heartbeat();
    assert_eq!((call.regex, call.topics), (None, None));
    world.ok(id, 1, None);
    world.subscribe_regex("u.*");
    let (id, call) = world.heartbeat();
    assert_eq!((call.regex.as_deref(), call.topics), (Some("u.*"), None));
    // The member asks for the names of matching topics.
    world.trace();
    world.ok(id, 2, Some(&of("u", &[0])));
    assert!(world.trace().contains(&"resolve 1".to_owned()));
    world.topic("u", 2);
    let (id, _) = world.heartbeat();
    world.ok(id, 2, None);
    assert_eq!(world.owned(), [0]);
}

#[test]
fn a_pattern_is_taken_back_even_where_it_is_not_certain_that_it_arrived() {
    for lost in [false, true] {
        let mut world = World::new(config());
        world.subscribe_regex("t.*");
        world.find(1);
        let (id, _) = world.heartbeat();
        world.ok(id, 1, None);
        if lost {
            let (id, _) = world.next_heartbeat();
            world.lose(id);
            world.find(1);
        }
        world.subscribe(&["t"]);
        world.pass(BACKOFF);
        let (_, call) = world.heartbeat();
        assert_eq!((call.regex.as_deref(), call.topics), (Some(""), Some(names(&["t"]))), "lost: {lost}");
    }
    // A member that never sent a pattern does not send an empty one.
    let mut world = World::subscribed(config());
    assert_eq!(world.heartbeat().1.regex, None);
}

#[test]
fn a_pattern_of_the_client_is_a_list_of_names() {
    let mut world = World::new(config());
    world.match_topics(&[]);
    world.find(1);
    let (id, call) = world.heartbeat();
    assert_eq!((call.topics, call.regex), (Some(names(&[])), None), "a member of the group before anything matches");
    world.ok(id, 1, Some(&ids(&[])));
    world.settle_heartbeats(1);
    world.match_topics(&["t"]);
    assert_eq!(world.heartbeat().1.topics, Some(names(&["t"])));
}

// req: S067
#[test]
fn nobody_gets_what_it_does_not_subscribe_to() {
    let mut world = World::stable(by_hand(), &[]);
    let (id, _) = world.next_heartbeat();
    world.topic("u", 2);
    world.subscribe(&["u"]);
    // The target was computed before the coordinator had the new subscription.
    world.ok(id, 2, Some(&ids(&[0])));
    assert_eq!(world.owned(), [0; 0]);
    // The subscription is sent together with the owned partitions, which are none.
    let (id, call) = world.heartbeat();
    assert_eq!((call.topics, call.owned), (Some(names(&["u"])), Some(ids(&[]))));
    world.ok(id, 3, Some(&of("u", &[0, 1])));
    assert_eq!(world.owned(), [0, 1]);
}

#[test]
fn a_pattern_that_the_broker_cannot_read_is_an_error_until_another_is_subscribed_to() {
    let mut world = World::new(config());
    world.subscribe_regex("t[");
    world.find(1);
    let (id, _) = world.heartbeat();
    world.refuse(id, ErrorCode::InvalidRegularExpression);
    assert_eq!(world.state(), ConsumerState::Fatal);
    world.put(Input::Unsubscribe);
    world.subscribe_regex("t.*");
    assert_eq!(world.heartbeat().1.regex.as_deref(), Some("t.*"));
}
