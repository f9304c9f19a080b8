//! Which partitions keep their owner, and the steps of a partition that moves: the seed's examples.

use std::collections::BTreeSet;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{BUILTIN, LastAssignment, builtin};

use crate::group::{assign, member, owners, topics};
use crate::rounds::{Lives, Partitions};

const TOPIC: &[&str] = &["t"];

fn set(indexes: &[i32]) -> Partitions {
    indexes.iter().map(|&index| TopicPartition::new("t", index)).collect()
}

/// A with T1 and T4, B with T2, C with T3.
fn a_b_c(assignor: &'static str) -> Lives {
    let mut lives = Lives::new(assignor, topics(&[("t", 4)]));
    for id in ["a", "b", "c"] {
        lives.join(id, TOPIC);
    }
    lives.settle();
    assert_eq!(["a", "b", "c"].map(|id| lives.owned(id).clone()), [set(&[0, 3]), set(&[1]), set(&[2])]);
    lives
}

// req: S036 S037
#[test]
fn a_moving_partition_is_given_up_in_one_round_and_taken_in_the_next() {
    let mut lives = a_b_c("cooperative-sticky");
    lives.join("d", TOPIC);
    let first = lives.round();
    assert_eq!(first.revoked, [("a".into(), set(&[3]))].into());
    assert!(first.added.is_empty(), "{first:?}");
    assert!(!lives.owners().contains_key(&TopicPartition::new("t", 3)), "it belongs to nobody for a round");
    let second = lives.round();
    assert!(second.revoked.is_empty(), "{second:?}");
    assert_eq!(second.added, [("d".into(), set(&[3]))].into());
}

// req: S038
#[test]
fn what_a_member_leaves_behind_is_given_away_in_the_same_round() {
    let mut lives = a_b_c("cooperative-sticky");
    lives.join("d", TOPIC);
    lives.settle();
    let kept = ["a", "b", "c"].map(|id| lives.owned(id).clone());
    lives.members.remove("d");
    let round = lives.round();
    assert!(round.revoked.is_empty(), "nobody has to stop anything, and no round follows: {round:?}");
    assert_eq!(round.added.values().flatten().cloned().collect::<Partitions>(), set(&[3]));
    for (id, kept) in ["a", "b", "c"].into_iter().zip(kept) {
        assert!(lives.owned(id).is_superset(&kept), "{id}");
    }
}

// req: S040
#[test]
fn a_leader_that_is_new_to_the_group_keeps_what_members_had() {
    for assignor in ["sticky", "cooperative-sticky"] {
        let mut lives = a_b_c(assignor);
        // The assignor has no state: the next leader knows only the members' metadata. A, the leader, leaves while d
        // joins.
        lives.members.remove("a");
        lives.join("d", TOPIC);
        let rounds = lives.settle();
        assert_eq!(rounds.len(), 1);
        assert!(lives.owned("b").is_superset(&set(&[1])), "{assignor}");
        assert!(lives.owned("c").is_superset(&set(&[2])), "{assignor}");
        assert_eq!(lives.owners().len(), 4);
    }
}

// req: S041
#[test]
fn every_partition_of_subscribed_topics_is_assigned_whether_anyone_claims_it_or_not() {
    for assignor in BUILTIN {
        let mut lives = Lives::new(assignor, topics(&[("t", 4), ("u", 3), ("unsubscribed", 2)]));
        lives.join("a", TOPIC);
        lives.join("b", &["t", "u"]);
        lives.settle();
        assert_eq!(lives.owners().len(), 7, "{assignor}");
        // No member claims new partitions of a topic, or a new topic.
        lives.topics = topics(&[("t", 9), ("u", 3), ("new", 2), ("unsubscribed", 2)]);
        lives.join("c", &["new", "t"]);
        lives.settle();
        let owners = lives.owners();
        assert_eq!(owners.len(), 14, "{assignor}");
        assert!(owners.keys().all(|partition| &*partition.topic != "unsubscribed"), "{assignor}");
    }
}

// req: S126
#[test]
fn the_same_members_and_topics_have_the_same_assignment() {
    for assignor in ["sticky", "cooperative-sticky"] {
        for different in [false, true] {
            let mut lives = Lives::new(assignor, topics(&[("t", 11), ("u", 7), ("v", 5)]));
            for (number, id) in ["a", "e", "b", "d", "c"].into_iter().enumerate() {
                let subscribed = ["t", "u", "v"];
                lives.join(id, if different { &subscribed[number % 3..] } else { &subscribed });
                lives.settle();
            }
            let owners = lives.owners();
            for _ in 0..3 {
                let round = lives.round();
                assert!(round.revoked.is_empty() && round.added.is_empty(), "{assignor}: {round:?}");
            }
            assert_eq!(lives.owners(), owners);
        }
    }
}

#[test]
fn scaling_moves_no_more_than_it_must() {
    for assignor in ["sticky", "cooperative-sticky"] {
        let mut lives = Lives::new(assignor, topics(&[("t", 50), ("u", 47)]));
        for count in 1..=20_usize {
            let before = lives.owners();
            lives.join(&format!("m-{count}"), &["t", "u"]);
            lives.settle();
            let after = lives.owners();
            assert_eq!(after.len(), 97);
            // All partitions that move go to the newcomer, which gets its share and no more.
            let moved = before.iter().filter(|(partition, owner)| after[*partition] != **owner).count();
            let newcomer = lives.owned(&format!("m-{count}")).len();
            assert!(before.is_empty() || moved == newcomer, "{moved} moved, {newcomer} at the newcomer");
            assert!((97 / count..=97_usize.div_ceil(count)).contains(&newcomer));
        }
        for count in (2..=20_usize).rev() {
            let before = lives.owners();
            let gone = lives.members.remove(&format!("m-{count}")).expect("a member").owned.len();
            lives.settle();
            let after = lives.owners();
            let moved = before.iter().filter(|(partition, owner)| after[*partition] != **owner).count();
            assert_eq!(moved, gone);
        }
    }
}

#[test]
fn of_two_claims_the_newer_generation_holds() {
    let mut members: Vec<_> = ["a", "b", "c"].map(|id| member(id, TOPIC)).into();
    for (member, (generation, indexes)) in members.iter_mut().zip([(7, &[0, 1][..]), (6, &[1, 2]), (7, &[0])]) {
        (member.generation, member.owned) = (generation, set(indexes).into_iter().collect());
    }
    let owners = owners(&assign("cooperative-sticky", &topics(&[("t", 4)]), &members));
    let owners: Vec<_> = owners.iter().map(|(partition, owner)| format!("{partition}={owner}")).collect();
    // If two members claim it in the same generation, neither claim counts. As either may be reading it, nobody gets
    // the partition yet.
    assert_eq!(owners, ["t-1=a", "t-2=b", "t-3=a"]);
}

#[test]
fn what_has_to_move_goes_to_who_had_it_before() {
    let mut members = vec![member("a", &["t", "u"]), member("y", TOPIC), member("x", TOPIC)];
    (members[1].generation, members[1].owned) = (6, set(&[0]).into_iter().collect());
    (members[2].generation, members[2].owned) = (7, set(&[0, 1, 2, 3]).into_iter().collect());
    // Under the eager protocol, no partition stays without an owner for a round.
    for member in &mut members {
        let last = LastAssignment {
            generation: member.generation,
            partitions: std::mem::take(&mut member.owned).into_iter().collect(),
            ..Default::default()
        };
        member.user_data = builtin("sticky").unwrap().user_data(&BTreeSet::new(), &last);
    }
    let owners = owners(&assign("sticky", &topics(&[("t", 4)]), &members));
    let owners: Vec<_> = owners.iter().map(|(partition, owner)| format!("{partition}={owner}")).collect();
    assert_eq!(owners, ["t-0=y", "t-1=a", "t-2=x", "t-3=x"]);
}
