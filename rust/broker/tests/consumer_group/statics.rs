//! Static members (KIP-345) in consumer groups.

use crate::client::{Client, create, describe, member, settle};
use crate::support::World;

const UNKNOWN_MEMBER_ID: i16 = 25;
const FENCED_INSTANCE_ID: i16 = 82;
const UNRELEASED_INSTANCE_ID: i16 = 111;

#[test]
fn a_static_member_that_comes_back_has_what_it_had() {
    let mut world = World::default();
    create(&mut world, "orders", 4);
    let (mut one, mut two) = (Client::named("one", "first", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    let (epoch, had) = (one.epoch, one.owned.clone());
    let answer = one.leave(&mut world, -2);
    assert_eq!((answer.error_code, answer.member_epoch), (0, -2));
    let group = describe(&mut world, 1);
    assert_eq!((member(&group, "one").member_epoch, group.group_epoch), (-2, epoch));
    // The other member keeps its partitions.
    let kept = two.owned.clone();
    two.beat(&mut world);
    assert_eq!(two.owned, kept);

    let mut again = Client::named("one again", "first", &["orders"]);
    again.join(&mut world);
    assert_eq!((again.epoch, &again.owned), (epoch, &had));
    assert_eq!(describe(&mut world, 1).group_epoch, epoch);
    // All requests with the old member id are fenced.
    let former = Client { epoch, ..one.clone() };
    assert_eq!(former.ask(&mut world, &former.full()).error_code, FENCED_INSTANCE_ID);
    assert_eq!(one.leave(&mut world, -2).error_code, FENCED_INSTANCE_ID);
}

#[test]
fn an_instance_in_use_is_not_handed_out() {
    let mut world = World::default();
    create(&mut world, "orders", 2);
    let mut one = Client::named("one", "first", &["orders"]);
    one.join(&mut world);
    let other = Client::named("other", "first", &["orders"]);
    let answer = other.ask(&mut world, &other.full());
    assert_eq!(answer.error_code, UNRELEASED_INSTANCE_ID);
    assert!(answer.error_message.unwrap().contains("is owned by one member"));
    let unknown = Client { epoch: 3, ..Client::named("one", "second", &["orders"]) };
    assert_eq!(unknown.ask(&mut world, &unknown.full()).error_code, UNKNOWN_MEMBER_ID);
}

#[test]
fn the_place_of_a_static_member_is_given_up_when_its_session_ends() {
    let mut world = World::with(1, &[("group.consumer.session.timeout.ms", "1000")]);
    create(&mut world, "orders", 2);
    let (mut one, mut two) = (Client::named("one", "first", &["orders"]), Client::new("two", &["orders"]));
    one.join(&mut world);
    two.join(&mut world);
    settle(&mut world, &mut [&mut one, &mut two]);
    one.leave(&mut world, -2);
    world.advance(999);
    settle(&mut world, &mut [&mut two]);
    assert_eq!(two.owned.len(), 1);
    world.advance(1);
    settle(&mut world, &mut [&mut two]);
    assert_eq!(two.owned.len(), 2);
}
