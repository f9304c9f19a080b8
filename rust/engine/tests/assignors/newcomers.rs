//! Members that join before others are lost, users who end a wait, and the user data that carries both.

use std::time::Duration;

use crate::deferred::{TOPIC, WAIT, a_to_d, lose, moved_nothing, secs};
use crate::group::topics;
use crate::moves::begun;
use crate::rounds::{Lives, Partitions};

/// A group of these members that has been stable for longer than the wait.
fn stands(members: &[&str], partitions: usize) -> Lives {
    let mut lives = Lives::new("deferred", topics(&[("t", partitions)]));
    for id in members {
        lives.join(id, TOPIC);
    }
    lives.round();
    lives.pass(WAIT);
    lives
}

// A surge deployment: the new process joins before the old one leaves.
#[test]
fn a_member_that_came_first_takes_the_place_of_the_next_that_is_lost_and_nobody_is_waited_for() {
    for (old, partitions) in [(1, 4), (3, 12), (3, 7), (5, 20), (8, 5)] {
        let ids: Vec<String> = (0..old).map(|number| format!("old-{number}")).collect();
        let mut lives = stands(&ids.iter().map(String::as_str).collect::<Vec<_>>(), partitions);
        for (number, id) in ids.iter().enumerate() {
            lives.join(&format!("new-{number}"), TOPIC);
            lives.settle();
            lives.pass(secs(20));
            lives.members.remove(id);
            let round = lives.round();
            assert!(round.revoked.is_empty(), "{id} of {old}: {round:?}");
            assert_eq!(lives.owners().len(), partitions, "{id} of {old}: nothing is left unread");
            assert_eq!((lives.deferral().rejoin_after, lives.schedule().newcomers), (None, vec![]), "{id} of {old}");
            let sizes = lives.members.values().map(|life| life.owned.len());
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
        // The new members are members like the others: if one is lost now, the group waits for it.
        if old > 1 && !lives.owned("new-0").is_empty() {
            lose(&mut lives, "new-0");
            assert_eq!(lives.deferral().rejoin_after, Some(WAIT));
        }
    }
}

#[test]
fn each_newcomer_takes_one_place_within_the_time_and_the_rest_of_a_loss_is_waited_for() {
    // Three members join, one of them too early, and four are lost.
    let mut lives = stands(&["a", "b", "c", "d", "e"], 24);
    lives.join("n-1", TOPIC);
    lives.settle();
    lives.pass(secs(250));
    lives.join("n-2", TOPIC);
    lives.join("n-3", TOPIC);
    lives.settle();
    let newcomers = |lives: &Lives| -> Vec<_> {
        lives.schedule().newcomers.iter().map(|came| (came.remaining, came.members)).collect()
    };
    assert_eq!(newcomers(&lives), [(secs(50), 1), (WAIT, 2)]);
    lives.pass(secs(50));
    let had: Partitions = ["a", "b", "c", "d"].iter().flat_map(|id| lives.owned(id).clone()).collect();
    ["a", "b", "c", "d"].iter().for_each(|id| _ = lives.members.remove(*id));
    let round = lives.round();
    let given: Partitions = round.added.into_values().flatten().collect();
    let schedule = lives.schedule();
    assert_eq!((schedule.losses.len(), schedule.losses[0].members, schedule.losses[0].remaining), (1, 2, WAIT));
    assert_eq!((given.len(), schedule.losses[0].partitions.len()), (had.len() / 2, had.len() / 2));
    assert_eq!(&given | &schedule.losses[0].partitions, had);
    assert_eq!(newcomers(&lives), []);
}

#[test]
fn a_loss_that_is_waited_for_is_a_newcomers_before_it_takes_a_place_and_the_first_members_take_none() {
    // With all at once, after a delay, and without either.
    for delay in [Duration::ZERO, secs(30)] {
        let mut lives = Lives::new("deferred", topics(&[("t", 6)]));
        lives.pace.initial_delay = delay;
        lives.join("a", TOPIC);
        if !delay.is_zero() {
            lives.round();
            lives.pass(secs(10));
        }
        lives.join("b", TOPIC);
        lives.join("c", TOPIC);
        lives.settle();
        assert_eq!(lives.schedule().newcomers, []);
        lose(&mut lives, "c");
        lives.join("c-again", TOPIC);
        lives.settle();
        assert_eq!(lives.schedule().newcomers, [], "it has c's place");
        lives.join("d", TOPIC);
        lives.settle();
        assert_eq!(lives.schedule().newcomers.len(), 1);
        // A member joins in the rebalance in which another is lost: it gets that one's partitions, and d still counts
        // as one more.
        let had = lives.members.remove("a").expect("a member").owned;
        lives.join("a-again", TOPIC);
        assert_eq!(lives.round().added, [("a-again".into(), had)].into());
        assert_eq!(lives.schedule().newcomers.len(), 1);
    }
    // The group waits for nobody, so no place is taken.
    for (assignor, wait) in [("incremental", WAIT), ("deferred", Duration::ZERO)] {
        let mut lives = Lives::new(assignor, topics(&[("t", 6)]));
        lives.pace.max_delay = wait;
        lives.join("a", TOPIC);
        lives.settle();
        lives.join("b", TOPIC);
        lives.settle();
        assert_eq!(lives.schedule().newcomers, []);
    }
}

#[test]
fn a_member_that_wants_a_rebalance_ends_every_wait_whoever_it_is() {
    for id in ["a", "c"] {
        let mut lives = a_to_d();
        let had = lose(&mut lives, "d");
        lives.pass(secs(10));
        lives.members.get_mut(id).expect("a member").last.ends_waits = true;
        let round = lives.round();
        assert_eq!((round.revoked.len(), round.added.into_values().collect::<Vec<_>>()), (0, vec![had]));
        assert_eq!(lives.deferral().rejoin_after, None);
    }
    // The wait for the first members, and the wait for the next round.
    let mut lives = Lives::new("incremental", topics(&[("t", 20)]));
    lives.pace.initial_delay = secs(100);
    lives.join("a", TOPIC);
    assert!(moved_nothing(&lives.round()));
    lives.members.get_mut("a").expect("a member").last.ends_waits = true;
    assert_eq!(lives.round().added["a"].len(), 20);
    lives.join("b", TOPIC);
    assert_eq!((begun(&lives.round()), begun(&lives.round())), (2, 0));
    lives.members.get_mut("b").expect("a member").last.ends_waits = true;
    assert_eq!(begun(&lives.round()), 2);
}

#[test]
fn who_is_waited_for_is_told_by_name_as_long_as_the_names_are_few() {
    let mut lives = a_to_d();
    lives.members.get_mut("b").expect("a member").instance = Some("worker-b".into());
    lives.round();
    lose(&mut lives, "b");
    lose(&mut lives, "d");
    let names: Vec<_> = lives.deferral().losses.into_iter().map(|loss| loss.names.into_iter().collect()).collect();
    let names: Vec<Vec<String>> =
        names.into_iter().map(|all: Vec<_>| all.iter().map(ToString::to_string).collect()).collect();
    assert_eq!(names, [["worker-b"], ["d"]]);
    // The user data names all newcomers, and every member sends it again, so a large group leaves them out.
    let ids: Vec<String> = (0..100).map(|number| format!("consumer-{number:03}")).collect();
    let mut lives = stands(&ids.iter().map(String::as_str).collect::<Vec<_>>(), 200);
    lose(&mut lives, "consumer-007");
    let losses = lives.deferral().losses;
    assert_eq!((losses[0].members, losses[0].partitions.len(), losses[0].names.len()), (1, 2, 0));
}
