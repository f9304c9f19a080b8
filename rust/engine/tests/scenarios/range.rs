//! Positions outside of the log.

use monedula_engine::fetch::{Fault, Output, ResetPolicy, Start};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{Reply, World, asked, batch, data, empty, error, ms, p};

/// At offset 50, which the leader does not have.
fn out_of_range(reset: ResetPolicy) -> (World, u64) {
    let mut world = World::new(reset, &[1]);
    let reading_id = world.assign(0, Start::Offset(50, -1));
    world.fetch(1);
    world.outputs();
    world.answer(1, vec![error(0, ErrorCode::OffsetOutOfRange)]);
    assert_eq!(world.outputs(), vec![Output::ListLogRange { partition: p(0), reading_id }]);
    assert!(world.try_fetch(1).is_none());
    (world, reading_id)
}

#[test]
fn retention_that_passed_by_goes_to_the_smallest_offset_under_each_policy() {
    for policy in [ResetPolicy::Earliest, ResetPolicy::Latest, ResetPolicy::ByDuration(ms(1))] {
        let (mut world, reading_id) = out_of_range(policy);
        world.listed(0, reading_id, 200, Some(80));
        let told = Output::Positioned { partition: p(0), reading_id, offset: 80, moved_from: Some(50) };
        assert_eq!(world.outputs(), vec![told], "{policy:?}");
        assert_eq!(asked(&world.fetch(1), 0), Some(80));
    }
}

#[test]
fn a_position_beyond_the_end_goes_where_the_policy_says() {
    for (policy, offset) in [(ResetPolicy::Earliest, 5), (ResetPolicy::Latest, 40)] {
        let (mut world, reading_id) = out_of_range(policy);
        world.listed(0, reading_id, 40, Some(5));
        assert_eq!(asked(&world.fetch(1), 0), Some(offset), "{policy:?}");
    }
}

#[test]
fn a_position_beyond_the_end_goes_back_by_a_duration_and_to_the_end_if_no_record_is_so_young() {
    let age = ms(60_000);
    for (young, offset) in [(Some(12), 12), (None, 40)] {
        let (mut world, reading_id) = out_of_range(ResetPolicy::ByDuration(age));
        let asks = |start| Output::ListOffset { partition: p(0), reading_id, start };
        world.listed(0, reading_id, 40, Some(5));
        assert_eq!(world.outputs(), vec![asks(Start::Ago(age))]);
        if let Some(found) = young {
            world.listed(0, reading_id, found, None);
        } else {
            world.answer_list_offsets(0, reading_id, Ok(None));
            assert_eq!(world.outputs(), vec![asks(Start::Latest)]);
            world.listed(0, reading_id, 40, None);
        }
        assert_eq!(
            world.outputs(),
            vec![Output::Positioned { partition: p(0), reading_id, offset, moved_from: Some(50) }]
        );
        assert_eq!(asked(&world.fetch(1), 0), Some(offset));
    }
}

#[test]
fn a_start_by_the_policy_of_a_duration_is_looked_up_by_it() {
    let age = ms(60_000);
    let mut world = World::new(ResetPolicy::ByDuration(age), &[1]);
    let reading_id = world.assign(0, Start::Policy);
    let outputs = world.outputs();
    assert!(
        outputs.contains(&Output::ListOffset { partition: p(0), reading_id, start: Start::Ago(age) }),
        "{outputs:?}"
    );
}

#[test]
fn without_a_policy_both_sides_are_faults_that_name_the_range() {
    for (log_start, log_end) in [(80, 200), (5, 40)] {
        let (mut world, reading_id) = out_of_range(ResetPolicy::Fail);
        world.listed(0, reading_id, log_end, Some(log_start));
        let fault = Fault::OffsetOutOfRange { partition: p(0), offset: 50, log_start, log_end };
        assert_eq!(world.outputs(), vec![Output::Stopped { reading_id, fault }]);
        assert!(world.try_fetch(1).is_none());
    }
}

#[test]
fn a_position_that_the_log_holds_after_all_is_kept() {
    let (mut world, reading_id) = out_of_range(ResetPolicy::Latest);
    world.listed(0, reading_id, 200, Some(0));
    assert_eq!(world.outputs(), vec![]);
    world.advance(ms(130));
    assert_eq!(asked(&world.fetch(1), 0), Some(50));
}

#[test]
fn a_broker_that_contradicts_itself_is_not_asked_in_a_spin() {
    let (mut world, reading_id) = out_of_range(ResetPolicy::Latest);
    let mut rounds = 0;
    let end = world.now + ms(10_000);
    while world.now < end {
        world.listed(0, reading_id, 200, Some(0));
        world.outputs();
        while world.try_fetch(1).is_none() {
            world.advance(ms(1));
        }
        rounds += 1;
        world.answer(1, vec![error(0, ErrorCode::OffsetOutOfRange)]);
    }
    assert!((5..40).contains(&rounds), "{rounds} rounds in 10 s");
}

#[test]
fn a_follower_out_of_range_proves_nothing_and_the_leader_is_asked() {
    let mut world = World::reading(&[1]);
    world.fetch(1);
    world.answer(1, vec![Reply { preferred: Some(2), ..empty(0) }]);
    world.outputs();
    world.fetch(2);
    world.answer(2, vec![error(0, ErrorCode::OffsetOutOfRange)]);
    assert_eq!(world.outputs(), vec![]);
    assert_eq!(asked(&world.fetch(1), 0), Some(0));
}

#[test]
fn a_failed_lookup_of_the_range_keeps_the_position_and_is_repeated() {
    let (mut world, reading_id) = out_of_range(ResetPolicy::Latest);
    world.answer_list_offsets(0, reading_id, Err(ErrorCode::LeaderNotAvailable));
    assert_eq!(world.outputs(), vec![Output::RefreshMetadata]);
    world.advance(ms(130));
    assert_eq!(world.outputs(), vec![Output::ListLogRange { partition: p(0), reading_id }]);
    world.listed(0, reading_id, 200, Some(80));
    assert_eq!(asked(&world.fetch(1), 0), Some(80));
}

#[test]
fn a_seek_mends_a_position_out_of_range() {
    let (mut world, reading_id) = out_of_range(ResetPolicy::Fail);
    world.listed(0, reading_id, 40, Some(5));
    world.seek(0, Start::Offset(20, -1));
    assert_eq!(asked(&world.fetch(1), 0), Some(20));
    assert_eq!(world.answer(1, vec![data(0, 20..30)]), vec![(0, 20)]);
}

#[test]
fn without_a_policy_a_start_that_needs_one_is_a_fault() {
    let mut world = World::new(ResetPolicy::Fail, &[1]);
    let reading_id = world.assign(0, Start::Policy);
    assert!(world.outputs().contains(&Output::Stopped { reading_id, fault: Fault::NoOffset { partition: p(0) } }));
}

#[test]
fn an_unknown_message_format_names_topic_partition_and_offset_and_what_came_before_is_delivered() {
    const MAGIC_AT: usize = 16;
    let mut world = World::reading(&[1]);
    world.fetch(1);
    let (good, mut unknown) = (batch(0..3, 0), batch(3..5, 0));
    unknown[MAGIC_AT] = 3;
    let reply = Reply { partition: 0, records: [good, unknown.clone()].concat(), ..Reply::default() };
    assert_eq!(world.answer(1, vec![reply]), vec![(0, 0)]);
    assert_eq!(asked(&world.fetch(1), 0), Some(3));
    world.outputs();
    world.answer(1, vec![Reply { partition: 0, records: unknown, ..Reply::default() }]);
    let [Output::Stopped { fault: fault @ Fault::Corrupt { partition, offset: 3, .. }, .. }] = &world.outputs()[..]
    else {
        panic!("the partition must stop at offset 3");
    };
    assert_eq!(*partition, p(0));
    let text = fault.to_string();
    assert!(text.contains("message format 3") && text.contains("offset 3") && text.contains(&*p(0).topic), "{text}");
}

/// Batches of one answer, asked from offset 10; which of them are delivered, and where the partition stops.
#[test]
fn offsets_that_run_backwards_in_an_answer_are_corrupt() {
    for (batches, delivered, stops_at) in [
        // The second was written as 20..25.
        (vec![10..20, 19..24, 25..30], 1, 20),
        (vec![10..20, 10..20, 30..40], 1, 20),
        (vec![10..20, 3..8, 30..40], 1, 20),
        // The first, the second was written as 10..15, and as 20..25.
        (vec![1034..1039, 15..20], 0, 10),
        (vec![10..20, 1044..1049, 25..30], 1, 20),
        // The first begins before the position.
        (vec![5..15, 12..20], 1, 15),
    ] {
        let mut world = World::new(ResetPolicy::Earliest, &[1]);
        let reading_id = world.assign(0, Start::Offset(10, -1));
        world.fetch(1);
        world.outputs();
        let records = batches.iter().flat_map(|offsets| batch(offsets.clone(), 0)).collect();
        let told = world.answer(1, vec![Reply { partition: 0, records, ..Reply::default() }]);
        assert_eq!(told.len(), delivered, "{batches:?}");
        let outputs = world.outputs();
        let [Output::Stopped { reading_id: stopped, fault }] = &outputs[..] else { panic!("{batches:?}: {outputs:?}") };
        assert_eq!(*stopped, reading_id);
        let Fault::Corrupt { partition, offset, reason } = fault else { panic!("{fault}") };
        assert_eq!((partition, *offset), (&p(0), stops_at), "{batches:?}");
        assert!(reason.contains("offsets run backwards"), "{reason}");
    }
}

#[test]
fn gaps_and_a_first_batch_that_begins_before_the_position_are_no_damage() {
    let mut world = World::new(ResetPolicy::Earliest, &[1]);
    world.assign(0, Start::Offset(10, -1));
    for (batches, next) in
        [(vec![5..15, 15..20, 40..45], 45), (vec![40..48, 48..50], 50), (vec![2000..2001, 2100..2101], 2101)]
    {
        world.fetch(1);
        let records = batches.iter().flat_map(|offsets| batch(offsets.clone(), 0)).collect();
        assert_eq!(world.answer(1, vec![Reply { partition: 0, records, ..Reply::default() }]).len(), 1, "{batches:?}");
        assert_eq!(asked(&world.fetch(1), 0), Some(next));
        world.answer(1, vec![]);
    }
}

#[test]
fn damage_beyond_the_end_of_a_bounded_read_is_nobodys() {
    let mut world = World::new(ResetPolicy::Fail, &[1]);
    world.assign_as(0, Start::Offset(10, -1), Some(20), false);
    world.fetch(1);
    world.outputs();
    let records = [batch(10..20, 0), batch(20..25, 0), batch(22..27, 0)].concat();
    assert_eq!(world.answer(1, vec![Reply { partition: 0, records, ..Reply::default() }]).len(), 1);
    assert_eq!(world.outputs(), vec![]);
}
