//! Moves of a few partitions at a time (Design III of seed 001).

use std::collections::BTreeSet;

use crate::deferred::{INTERVAL, TOPIC, WAIT, lose, moved_nothing, secs};
use crate::group::topics;
use crate::rounds::{Lives, Round};

/// How many partitions members have to revoke anew in a round.
pub(crate) fn begun(round: &Round) -> usize {
    round.revoked.values().map(BTreeSet::len).sum()
}

// req: S051
#[test]
fn at_most_so_many_partitions_move_in_a_round_and_rounds_keep_their_distance() {
    for (assignor, most) in [("incremental", None), ("incremental", Some(2)), ("deferred", Some(3))] {
        let mut lives = Lives::new(assignor, topics(&[("t", 16)]));
        lives.pace.max_moves = most;
        lives.join("a", TOPIC);
        lives.round();
        for id in ["b", "c", "d"] {
            lives.join(id, TOPIC);
        }
        // A tenth of 16, rounded up.
        let most = most.unwrap_or(2);
        let (mut moved, mut rounds) = (0, Vec::new());
        while lives.owned("a").len() > 4 {
            let round = lives.round();
            assert!((1..=most).contains(&begun(&round)), "{assignor}: {round:?}");
            moved += begun(&round);
            rounds.push(lives.now);
            // Revoked partitions are assigned at once. Other rebalances in between move no more partitions.
            for _ in 0..2 {
                let between = lives.round();
                assert_eq!(begun(&between), 0, "{assignor}: {between:?}");
                lives.pass(secs(1));
            }
            assert_eq!(lives.owners().len(), 16, "all but what moves is always owned");
            match lives.deferral().rejoin_after {
                Some(left) => lives.pass(left),
                None => break,
            }
        }
        assert_eq!((moved, rounds.len()), (12, 12_usize.div_ceil(most)), "no detours");
        assert!(rounds.windows(2).all(|pair| pair[1] - pair[0] >= INTERVAL), "{rounds:?}");
        assert!(lives.members.values().all(|life| life.owned.len() == 4));
        assert!(moved_nothing(&lives.round()) && lives.deferral().rejoin_after.is_none());
    }
}

// req: S134
#[test]
fn what_nobody_owns_is_not_rationed() {
    // The incremental assignor reserves nothing: e's partitions are spread at once, although only one may move in a
    // round.
    let mut lives = Lives::new("incremental", topics(&[("t", 20)]));
    for id in ["a", "b", "c", "d", "e"] {
        lives.join(id, TOPIC);
    }
    lives.round();
    lives.members.remove("e");
    let round = lives.round();
    assert_eq!((begun(&round), round.added.values().map(BTreeSet::len).sum::<usize>()), (0, 4));
    assert!(lives.members.values().all(|life| life.owned.len() == 5));
    // The deferred assignor: a member that comes back gets all its partitions at once, and those that nobody came back
    // for are spread at once.
    let mut lives = Lives::new("deferred", topics(&[("t", 20)]));
    lives.pace.max_moves = Some(1);
    for id in ["a", "b", "c", "d"] {
        lives.join(id, TOPIC);
    }
    lives.round();
    let had = lose(&mut lives, "d");
    lives.join("d-again", TOPIC);
    assert_eq!(lives.round().added, [("d-again".into(), had.clone())].into());
    lose(&mut lives, "d-again");
    lives.pass(WAIT);
    let round = lives.round();
    assert_eq!((begun(&round), round.added.values().map(BTreeSet::len).sum::<usize>()), (0, had.len()));
}

#[test]
fn a_partition_that_takes_long_to_be_given_up_holds_up_no_other_members_move() {
    let mut lives = Lives::new("incremental", topics(&[("t", 12)]));
    lives.pace.max_moves = Some(2);
    for id in ["a", "b"] {
        lives.join(id, TOPIC);
    }
    lives.round();
    lives.members.get_mut("a").expect("a member").slow = lives.owned("a").clone();
    lives.join("c", TOPIC);
    let first = lives.round();
    assert_eq!((first.revoked["a"].len(), first.revoked["b"].len()), (1, 1));
    // B has revoked its partition and c has it, while a still claims the one that it has to revoke.
    let second = lives.round();
    assert_eq!((begun(&second), second.added["c"].len()), (1, 1), "a is told again: {second:?}");
    lives.pass(INTERVAL);
    let third = lives.round();
    assert_eq!(third.revoked.get("b").map(BTreeSet::len), Some(1), "b moves on, and nothing more of a's: {third:?}");
    assert_eq!(third.revoked["a"], first.revoked["a"]);
    lives.members.get_mut("a").expect("a member").slow.clear();
    lives.settle_in_time();
    assert!(lives.members.values().all(|life| life.owned.len() == 4));
}
