//! The member id (KIP-1082).

use monedula_engine::group::consumer::member_id;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use crate::world::{BACKOFF, MEMBER, World, config};

#[test]
fn an_id_is_a_version_4_uuid_as_kafka_writes_it() {
    for random in [[0; 16], [0xff; 16], [0xfb; 16], core::array::from_fn(|byte| byte as u8 * 17)] {
        let text = member_id(random);
        assert_eq!(text.len(), 22);
        assert!(!text.starts_with('-'), "{text}");
        let Uuid(bytes) = text.parse().expect("Kafka reads it");
        assert_eq!((bytes[6] >> 4, bytes[8] >> 6), (4, 2));
        assert_eq!(bytes[9..], random[9..], "all other bits are the random ones");
    }
    assert_ne!(member_id([1; 16]), member_id([2; 16]));
}

#[test]
fn the_id_is_there_before_the_first_join_and_stays() {
    let mut world = World::new(config());
    assert_eq!(world.member.status().member_id, MEMBER);
    world.subscribe(&["t"]);
    world.find(1);
    for _ in 0..3 {
        let (id, call) = world.heartbeat();
        assert_eq!((call.member_id.as_str(), call.epoch), (MEMBER, 0));
        world.ok(id, 3, None);
        world.refuse_next(ErrorCode::UnknownMemberId);
        world.pass(BACKOFF);
    }
    let (id, _) = world.heartbeat();
    world.ok(id, 9, None);
    world.put(monedula_engine::group::Input::Unsubscribe);
    let (id, call) = world.heartbeat();
    assert_eq!((call.member_id.as_str(), call.epoch), (MEMBER, -1));
    world.ok(id, -1, None);
    world.subscribe(&["t"]);
    assert_eq!(world.heartbeat().1.member_id, MEMBER);
}
