//! The memory of an idle member of a classic group, counted by the allocator.
#![allow(unsafe_code, clippy::unwrap_used, reason = "an allocator cannot be written without; a test may panic")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use monedula_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use monedula_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use support::World;

/// The number of bytes that are allocated at present.
static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: everything is the system allocator's; only sums are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const GROUPS: usize = 1000;
const MEMBERS: usize = 10;

/// The count includes the log's records of the groups' generations, which retention and compaction would remove.
#[test]
fn an_idle_member_costs_less_than_ten_kilobytes() {
    let mut world = World::with(1, &[("group.initial.rebalance.delay.ms", "1")]);
    support::make_coordinators(&mut world);
    // About the size of a subscription to a hundred topics.
    let metadata = vec![7; 2000];
    let before = {
        let connection = world.connect(1);
        join(&mut world, connection, "warm up", &metadata);
        world.disconnect(connection);
        world.advance(10);
        ALLOCATED.load(Ordering::Relaxed)
    };
    for group in 0..GROUPS {
        let id = format!("group-{group}");
        let connections: Vec<_> = (0..MEMBERS).map(|_| world.connect(1)).collect();
        connections.iter().for_each(|&connection| join(&mut world, connection, &id, &metadata));
        world.advance(10);
        // The frames of the answers are read and dropped here, unlike with `take`.
        let mut ids = Vec::new();
        let mut leader = String::new();
        for &connection in &connections {
            let Some(support::Outcome::Frame(frame)) = world.outcome(connection) else { panic!("no answer") };
            let answer = monedula_protocol::frame::decode_response::<JoinGroupRequest<'_>>(&frame, 3).unwrap();
            assert_eq!(answer.error_code, 0);
            ids.push(answer.member_id.to_owned());
            leader = answer.leader.to_owned();
        }
        sync(&mut world, &connections, &id, &ids, &leader);
        connections.into_iter().for_each(|connection| world.disconnect(connection));
    }
    let members = (GROUPS * MEMBERS) as isize;
    let each = (ALLOCATED.load(Ordering::Relaxed) - before) / members;
    println!(
        "{each} bytes for each of {members} idle members, of which 2000 are its subscription and 500 its assignment"
    );
    assert!(each < 10_000, "{each} bytes");
}

fn join(world: &mut World, connection: monedula_broker::core::ConnectionId, group_id: &str, metadata: &[u8]) {
    let protocol = JoinGroupRequestProtocol { name: "range", metadata, ..Default::default() };
    let request = JoinGroupRequest {
        group_id,
        session_timeout_ms: 1_000_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer",
        protocols: vec![protocol],
        ..Default::default()
    };
    world.send_on(connection, &request, 3);
}

fn sync(
    world: &mut World,
    connections: &[monedula_broker::core::ConnectionId],
    group_id: &str,
    ids: &[String],
    leader: &str,
) {
    for (&connection, id) in connections.iter().zip(ids) {
        let given = ids.iter().map(|id| SyncGroupRequestAssignment {
            member_id: id,
            assignment: &[1; 500],
            ..Default::default()
        });
        let assignments = if id == leader { given.collect() } else { Vec::new() };
        let request = SyncGroupRequest { group_id, generation_id: 1, member_id: id, assignments, ..Default::default() };
        world.send_on(connection, &request, 3);
    }
    for &connection in connections {
        assert!(matches!(world.outcome(connection), Some(support::Outcome::Frame(_))));
    }
}
