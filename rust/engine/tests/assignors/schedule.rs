//! The user data of deferring assignors, byte for byte, and invalid bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{DeferredUserData, LastAssignment, Loss, Newcomers, Schedule, ScheduleError, builtin};
use monedula_protocol::error::WireError;

use crate::group::{assign, member, topics};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn partitions(indexes: &[i32]) -> BTreeSet<TopicPartition> {
    indexes.iter().map(|&index| TopicPartition::new("t", index)).collect()
}

fn schedule() -> Schedule {
    Schedule {
        start: None,
        round: Some(ms(10_000)),
        unbalanced: true,
        members: 3,
        topics: [("t".into(), 4)].into(),
        moving: partitions(&[2]),
        losses: vec![Loss {
            remaining: ms(300_000),
            members: 1,
            partitions: partitions(&[0, 3]),
            names: ["x".into()].into(),
        }],
        newcomers: vec![Newcomers { remaining: ms(60_000), members: 2 }],
        names: ["a".into(), "b".into()].into(),
    }
}

/// Version 0: start -1, round 10 s, unbalanced, 3 members; t has 4 partitions; t-2 moves; t-0 and t-3 of one member, x,
/// are reserved for 300 s; two newcomers make up for two losses for 60 s; a and b are members.
const BYTES: &[u8] = b"\x00\x00\xff\xff\xff\xff\x00\x00\x27\x10\x01\x00\x00\x00\x03\
    \x00\x00\x00\x01\x00\x01t\x00\x00\x00\x04\
    \x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x02\
    \x00\x00\x00\x01\x00\x04\x93\xe0\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\
    \x00\x00\x00\x01\x00\x01x\
    \x00\x00\x00\x01\x00\x00\xea\x60\x00\x00\x00\x02\
    \x00\x00\x00\x02\x00\x01a\x00\x01b";

#[test]
fn the_bytes_stay_what_they_are() {
    assert_eq!(schedule().write().unwrap(), BYTES);
    assert_eq!(Schedule::read(BYTES).unwrap(), schedule());
    let deferral = schedule().deferral();
    assert_eq!((deferral.rejoin_after, deferral.left_out), (Some(ms(10_000)), 2));
}

#[test]
fn a_member_tells_what_is_left_by_its_own_clock() {
    let last = LastAssignment {
        generation: 7,
        user_data: Some(BYTES.to_vec()),
        current: true,
        age: Duration::from_micros(12_000_500),
        ..Default::default()
    };
    let told = |last: &LastAssignment| {
        DeferredUserData::read(&builtin("deferred").unwrap().user_data(&BTreeSet::new(), last).unwrap()).unwrap()
    };
    let known = told(&last).schedule.unwrap();
    assert_eq!(told(&last).generation, Some(7));
    // The rest of 300 s after 12.0005 s, rounded up; nothing is left of 10 s.
    assert_eq!((known.losses[0].remaining, known.round), (ms(288_000), Some(ms(0))));
    assert_eq!(known.newcomers[0].remaining, ms(48_000));
    let Schedule { losses, round, newcomers, .. } = schedule();
    assert_eq!(Schedule { losses, round, newcomers, ..known }, schedule());
    // A member that has lost all its partitions, and one that never had any, have no user data.
    for gone in [LastAssignment { current: false, ..last.clone() }, LastAssignment { generation: -1, ..last.clone() }] {
        assert_eq!(told(&gone), DeferredUserData::default());
    }
    // The user data of another assignor is ignored.
    let other = LastAssignment { user_data: Some(vec![0, 0, 0, 7]), ..last };
    assert_eq!(told(&other), DeferredUserData { generation: Some(7), ..DeferredUserData::default() });
    // A member without a schedule sends the user's request too.
    assert!(told(&LastAssignment { ends_waits: true, ..LastAssignment::default() }).ends_waits);
}

#[test]
fn bytes_that_are_none_are_refused_by_name() {
    for cut in 0..BYTES.len() {
        assert!(matches!(Schedule::read(&BYTES[..cut]), Err(ScheduleError::Wire(_))), "{cut} bytes");
    }
    let with = |at: usize, new: &[u8]| {
        let mut bytes = BYTES.to_vec();
        bytes[at..at + new.len()].copy_from_slice(new);
        Schedule::read(&bytes).unwrap_err()
    };
    let unknown = with(0, &[0, 1]);
    assert!(matches!(unknown, ScheduleError::Wire(WireError::UnsupportedVersion { version: 1, .. })), "{unknown}");
    assert_eq!(with(11, &[0xff; 4]), ScheduleError::Number { what: "members", number: -1 });
    assert_eq!(with(22, &[0x80, 0, 0, 0]), ScheduleError::Number { what: "a topic's partitions", number: i32::MIN });
    assert_eq!(with(49, &[0; 4]), ScheduleError::Number { what: "lost members", number: 0 });
    // A count that would allocate all memory.
    assert!(matches!(with(15, &[0x7f, 0xff, 0xff, 0xff]), ScheduleError::Wire(WireError::LengthBeyondFrame { .. })));
    let longer = [BYTES, &[0]].concat();
    assert!(matches!(Schedule::read(&longer), Err(ScheduleError::Wire(WireError::TrailingBytes { .. }))));
}

/// Whatever user data a member sends, the others get their partitions, and no wait is longer than the leader's setting.
#[test]
fn a_leader_is_not_led_astray_by_what_a_member_says() {
    let deferred = builtin("deferred").unwrap();
    let mut liar = schedule();
    (liar.members, liar.losses[0].members) = (usize::MAX, usize::MAX);
    liar.losses[0].remaining = Duration::MAX;
    liar.losses[0].partitions = [TopicPartition::new("ghost", 1), TopicPartition::new("t", -5)].into();
    let partitions = partitions(&[0, 1, 3, 4, i32::MAX]);
    liar.losses.push(Loss { remaining: Duration::MAX, members: 1, partitions, ..Loss::default() });
    liar.topics.insert("t".into(), usize::MAX);
    let last =
        LastAssignment { generation: 7, user_data: Some(liar.write().unwrap()), current: true, ..Default::default() };
    let told = deferred.user_data(&BTreeSet::new(), &last);
    for user_data in [told, None, Some(vec![]), Some(vec![0, 0]), Some(vec![0xff; 30]), Some(BYTES.to_vec())] {
        let mut members = vec![member("a", &["t"]), member("b", &["t"])];
        members[0].owned = vec![TopicPartition::new("t", 2)];
        members[0].user_data = user_data;
        // A member that was there before: a new one would get the reserved partitions.
        members[1].owned = vec![TopicPartition::new("t", 1)];
        let assignment = assign("deferred", &topics(&[("t", 5)]), &members);
        let given = Schedule::read(assignment["a"].user_data.as_deref().unwrap()).unwrap();
        assert!(!given.losses.is_empty(), "{given:?}");
        assert!(given.losses.iter().all(|loss| loss.remaining <= ms(300_000)), "{given:?}");
        assert!(assignment["a"].partitions.contains(&TopicPartition::new("t", 2)) || !given.moving.is_empty());
    }
}
