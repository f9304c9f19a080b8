//! Target assignments, and the names of their topics.

use monedula_engine::group::consumer::ConsumerState;

use crate::world::{BACKOFF, World, by_hand, config, id, ids, is_full, ms, of, t};

#[test]
fn the_first_target_is_gained_told_looked_up_and_acknowledged() {
    let mut world = World::subscribed(config());
    world.busy = true;
    world.trace();
    let (id, _) = world.heartbeat();
    world.ok(id, 1, Some(&ids(&[0, 1])));
    assert_eq!(world.trace(), ["assigned t-0 t-1", "Assigned t-0 t-1", "OffsetFetch"]);
    assert_eq!(world.state(), ConsumerState::Reconciling);
    world.look_up(10);
    assert_eq!(world.trace(), ["start t-0 t-1"]);
    world.no_call();
    // Once the user's callback has ended, the assignment is acknowledged.
    world.user_returns();
    assert_eq!(world.trace(), ["ConsumerGroupHeartbeat"]);
    assert_eq!(world.state(), ConsumerState::Stable);
    assert_eq!(world.heartbeat().1.owned, Some(ids(&[0, 1])));
}

#[test]
fn an_empty_target_is_acknowledged_without_a_callback() {
    let mut world = World::subscribed(config());
    world.trace();
    let (id, _) = world.heartbeat();
    world.ok(id, 1, Some(&ids(&[])));
    assert_eq!(world.trace(), ["ConsumerGroupHeartbeat"]);
    assert_eq!(world.heartbeat().1.owned, Some(ids(&[])));
    assert_eq!(world.state(), ConsumerState::Stable);
}

#[test]
fn a_topic_without_a_name_is_asked_for_and_does_not_block_the_others() {
    let mut world = World::stable(by_hand(), &[0]);
    let both = ids(&[0, 1]).union(&of("u", &[0])).copied().collect();
    world.subscribe(&["t", "u"]);
    let (heartbeat, _) = world.heartbeat();
    world.trace();
    world.ok(heartbeat, 2, Some(&both));
    let trace = world.trace();
    assert_eq!(trace[..2], ["assigned t-1", "Assigned t-1"], "what is known is taken");
    assert!(trace.contains(&"resolve 1".to_owned()), "{trace:?}");
    assert_eq!(world.resolving, [[id("u")].into()]);
    assert_eq!(world.owned(), [0, 1]);
    world.look_up(10);
    world.settle_heartbeats(2);
    assert_eq!(world.state(), ConsumerState::Reconciling, "the name is still missing");
    assert_eq!(world.member.status().unresolved, [id("u")].into());
    // Once its name is known, it is assigned and acknowledged too.
    world.trace();
    world.topic("u", 2);
    assert_eq!(world.trace()[..2], ["assigned u-0", "Assigned u-0"]);
    assert_eq!(world.heartbeat().1.owned, Some(both));
    assert_eq!(world.state(), ConsumerState::Stable);
    assert_eq!(world.member.status().unresolved, [].into());
}

#[test]
fn names_are_asked_for_again_after_a_backoff_and_what_is_known_is_acknowledged_once() {
    let mut world = World::stable(by_hand(), &[0]);
    let both = ids(&[0]).union(&of("x", &[0])).copied().collect();
    world.target(2, &both);
    assert_eq!(world.trace(), ["resolve 1", "ConsumerGroupHeartbeat"]);
    let (id, call) = world.heartbeat();
    assert_eq!(call.owned, Some(ids(&[0])));
    world.ok(id, 2, None);
    world.beating = true;
    world.pass(BACKOFF * 20);
    let asked = world.trace();
    assert!(asked.iter().all(|line| line == "resolve 1"), "{asked:?}");
    assert!((10..60).contains(&asked.len()), "{}", asked.len());
    // Metadata without the topic does not name it either.
    world.learn();
    assert_eq!(world.state(), ConsumerState::Reconciling);
    // A target without the topic ends the search for its name.
    world.beating = false;
    world.target(3, &ids(&[0]));
    let (id, call) = world.heartbeat();
    assert_eq!((call.owned, world.state()), (Some(ids(&[0])), ConsumerState::Stable));
    world.ok(id, 3, None);
    world.trace();
    world.pass(ms(2000));
    assert!(!world.trace().contains(&"resolve 1".to_owned()));
}

#[test]
fn the_coordinator_computes_and_the_member_takes_what_it_is_told() {
    let mut world = World::stable(by_hand(), &[0, 1]);
    world.target(2, &ids(&[1, 3]));
    let trace = world.trace();
    let moves: Vec<&String> = trace.iter().filter(|line| line.contains("t-")).collect();
    assert_eq!(
        moves,
        ["settle t-0", "Revoked t-0", "dropped t-0", "assigned t-3", "Assigned t-3"],
        "and t-1 is left alone"
    );
    assert_eq!(world.owned(), [1, 3]);
}

#[test]
fn a_topic_that_metadata_leaves_out_for_a_while_keeps_its_name() {
    let mut world = World::stable(by_hand(), &[0]);
    world.metadata.clear();
    world.learn();
    world.target(2, &ids(&[0, 1]));
    assert_eq!(world.owned(), [0, 1]);
    assert!(world.member.status().owned.contains(&t(1)));
}

// franz-go#1426: never commit offsets of the old topic to the new one.
#[test]
fn a_topic_that_is_made_anew_is_lost_not_revoked_and_gained_again() {
    let mut world = World::stable(config(), &[0]);
    world.finished = crate::world::offsets(&[(0, 15)]);
    world.topic_with("t", id("n"), 4);
    world.target(2, &of("n", &[0]));
    assert_eq!(
        world.trace(),
        ["dropped t-0", "Lost t-0", "assigned t-0", "Assigned t-0", "OffsetFetch", "ConsumerGroupHeartbeat"]
    );
    let (_, call) = world.heartbeat();
    assert_eq!(call.owned, Some(of("n", &[0])));
    assert!(!is_full(&call));
    world.look_up(0);
    world.no_call();
}
