//! Joining and syncing: the two barriers.

use monedula_protocol::error_code::ErrorCode;

use crate::member::{Member, fetch, make_topic, settle};
use crate::support::World;

// seed: S100
#[test]
fn a_first_member_joins_syncs_commits_and_leaves() {
    let mut world = World::with(3, &[]);
    make_topic(&mut world, "orders");
    let mut member = Member::new(&mut world, "g");
    settle(&mut world, &mut [&mut member]);
    assert_eq!((member.generation, member.id.starts_with("test-")), (1, true));
    assert_eq!(member.heartbeat(&mut world), ErrorCode::None);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, -1);
    assert_eq!(member.commit(&mut world, 0, 7), ErrorCode::None);
    assert_eq!(fetch(&mut world, "g", 0).committed_offset, 7);
    assert_eq!(member.leave(&mut world), ErrorCode::None);
    assert_eq!(member.heartbeat(&mut world), ErrorCode::UnknownMemberId);
}
