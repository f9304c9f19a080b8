//! Many brokers and many partitions: each gets its turn, and the cost of a fetch depends on what changed.

use std::collections::BTreeMap;

use monedula_engine::fetch::{Demand, Start};

use crate::world::{Reply, World, asked, data, empty, ms};

/// One batch with all records up to `end`, the end of the log.
fn all_of(partition: i32, offsets: std::ops::Range<i64>) -> Reply {
    Reply { high_watermark: Some(offsets.end), ..data(partition, offsets) }
}

#[test]
fn with_memory_for_one_fetch_at_a_time_every_node_has_its_turn() {
    for nodes in [1, 2, 3, 9, 30, 50] {
        let leaders: Vec<i32> = (1..=nodes).collect();
        let mut world = World::reading(&leaders);
        let mut turns: BTreeMap<i32, i64> = BTreeMap::new();
        for _ in 0..4 * nodes {
            let node = world.machine.ready_nodes(world.now)[0];
            let index = node - 1;
            let offset = asked(&world.fetch(node), index).expect("its own partition");
            world.answer(node, vec![data(index, offset..offset + 10)]);
            *turns.entry(node).or_default() += 1;
        }
        assert!(turns.len() == nodes as usize && turns.values().all(|&turns| turns == 4), "{turns:?}");
    }
}

#[test]
fn a_node_that_comes_back_does_not_push_in_front_of_those_that_wait() {
    let mut world = World::reading(&[1, 2, 3]);
    for node in [1, 2, 3] {
        world.fetch(node);
    }
    world.lose(1);
    world.answer(3, vec![data(2, 0..10)]);
    world.answer(2, vec![data(1, 0..10)]);
    world.advance(ms(200));
    assert_eq!(world.machine.ready_nodes(world.now), [1, 2, 3]);
    world.fetch(1);
    world.answer(1, vec![data(0, 0..10)]);
    assert_eq!(world.machine.ready_nodes(world.now), [2, 3, 1]);
}

#[test]
fn a_node_is_behind_until_all_of_its_partitions_are_fetched_to_their_ends() {
    let mut world = World::reading(&[1, 1, 2]);
    let demand = |behind, caught_up, caught_up_unasked| Demand { behind, caught_up, caught_up_unasked };
    assert_eq!(world.machine.demand(), demand(2, 0, 0), "nothing is known yet");
    for node in [1, 2] {
        world.fetch(node);
    }
    world.answer(2, vec![Reply { high_watermark: Some(0), ..empty(2) }]);
    assert_eq!(world.machine.demand(), demand(1, 1, 1));
    world.fetch(2);
    assert_eq!(world.machine.demand(), demand(1, 1, 0));
    world.answer(1, vec![all_of(0, 0..10), data(1, 0..10)]);
    assert_eq!((world.machine.demand(), world.machine.is_behind(1)), (demand(1, 1, 0), true));
    world.fetch(1);
    world.answer(1, vec![all_of(1, 10..20)]);
    assert_eq!((world.machine.demand(), world.machine.is_behind(1)), (demand(0, 2, 1), false));
    // One record more than was fetched.
    world.answer(2, vec![Reply { high_watermark: Some(11), ..data(2, 0..10) }]);
    assert!(world.machine.is_behind(2));
    world.seek(0, Start::Offset(3, -1));
    assert!(world.machine.is_behind(1), "what was known is of another position");
    for index in [0, 1] {
        world.pause(index, true);
    }
    assert_eq!(world.machine.demand(), demand(1, 0, 0), "nothing is fetched from the first node any more");
}

#[test]
fn a_fetch_looks_at_what_changed_not_at_all_that_is_assigned() {
    let looks_of_a_fetch = |partitions: usize, bounded: bool| {
        let mut world = World::reading_until(&vec![1; partitions], |_| bounded.then_some(1_000_000));
        world.fetch(1);
        world.answer(1, vec![]);
        let before = world.machine.looks();
        const FETCHES: u64 = 50;
        for batch in 0..FETCHES as i64 {
            world.fetch(1);
            assert_eq!(world.answer(1, vec![data(7, batch * 10..batch * 10 + 10)]), vec![(7, batch * 10)]);
            assert!(!world.is_complete());
            world.outputs();
        }
        (world.machine.looks() - before) / FETCHES
    };
    for bounded in [false, true] {
        let (few, many) = (looks_of_a_fetch(10, bounded), looks_of_a_fetch(10_000, bounded));
        assert_eq!(few, many, "with 10 partitions and with 10,000");
    }
}

#[test]
fn whether_a_bounded_read_is_over_is_known_without_looking_at_its_partitions() {
    let mut world = World::reading_until(&vec![1; 1000], |index| Some(if index == 999 { 10 } else { 0 }));
    world.fetch(1);
    let before = world.machine.looks();
    for _ in 0..100 {
        assert!(!world.is_complete());
    }
    assert_eq!(world.machine.looks(), before);
    world.answer(1, vec![data(999, 0..10)]);
    assert!(world.is_complete());
    world.seek(3, Start::Offset(-1, -1));
    assert!(!world.is_complete(), "it was sent back");
    world.unassign(3);
    assert!(world.is_complete());
}
