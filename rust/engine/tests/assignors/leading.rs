//! How a leader of a `deferred` group handles the user data of members: changes together with a loss, moves in
//! progress, and waits longer than its own setting.

use std::collections::BTreeSet;
use std::time::Duration;

use monedula_engine::TopicPartition;

use crate::group::topics;
use crate::rounds::{Lives, Partitions};

const TOPIC: &[&str] = &["t"];

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn group(assignor: &'static str, partitions: usize, ids: &[&str]) -> Lives {
    let mut lives = Lives::new(assignor, topics(&[("t", partitions)]));
    for id in ids {
        lives.join(id, TOPIC);
    }
    lives.round();
    assert_eq!(lives.owners().len(), partitions);
    lives
}

fn member<'l>(lives: &'l mut Lives, id: &str) -> &'l mut crate::rounds::Life {
    lives.members.get_mut(id).expect("a member")
}

#[test]
fn what_is_new_is_served_at_once_though_a_member_is_lost_in_the_same_round() {
    let mut lives = group("deferred", 4, &["a", "b", "c", "d"]);
    let had = lives.members.remove("d").expect("a member").owned;
    // A new topic, and new partitions of a known one.
    lives.topics = topics(&[("t", 6), ("new", 3)]);
    member(&mut lives, "a").topics.insert("new".into());
    let round = lives.round();
    let named = |topic: &str, indexes: &[i32]| -> Partitions {
        indexes.iter().map(|&index| TopicPartition::new(topic, index)).collect()
    };
    let added: Partitions = round.added.into_values().flatten().collect();
    assert_eq!((round.revoked.len(), added), (0, &named("t", &[4, 5]) | &named("new", &[0, 1, 2])));
    assert_eq!(lives.schedule().losses.into_iter().map(|loss| loss.partitions).collect::<Vec<_>>(), [had]);
}

// Its user was asked to finish, and may have dropped its rows: the partition starts anew, whichever member gets it.
#[test]
fn a_move_that_was_asked_for_is_not_taken_back_when_its_reason_is_gone() {
    for assignor in ["deferred", "incremental"] {
        let mut lives = group(assignor, 12, &["a", "b"]);
        lives.pace.max_moves = Some(2);
        let all = lives.owned("a").clone();
        member(&mut lives, "a").slow = all.clone();
        lives.join("c", TOPIC);
        let asked = lives.round().revoked["a"].clone();
        // C, which was to get it, leaves; a would keep it now, but has not finished revoking it.
        lives.members.remove("c");
        for _ in 0..2 {
            let round = lives.round();
            assert_eq!(round.revoked.get("a"), Some(&asked), "{assignor}: it is told again");
            assert_eq!(lives.schedule().moving, asked, "{assignor}");
        }
        member(&mut lives, "a").slow.clear();
        lives.round();
        assert_eq!(lives.owned("a"), &(&all - &asked), "{assignor}");
        let round = lives.round();
        assert_eq!((round.revoked.len(), round.added), (0, [("a".into(), asked)].into()), "{assignor}");
    }
}

// The previous leader had other settings, or invalid ones.
#[test]
fn nobody_is_believed_more_patience_than_the_leader_has_itself() {
    let far = secs(2_000_000);
    let mut lives = group("deferred", 3, &["a", "b", "c"]);
    lives.pace.max_delay = far;
    let had = lives.members.remove("c").expect("a member").owned;
    lives.round();
    assert_eq!(lives.deferral().rejoin_after, Some(far));
    lives.pace.max_delay = secs(77);
    let round = lives.round();
    assert_eq!((round.added.len(), lives.deferral().rejoin_after), (0, Some(secs(77))), "a lost member");
    lives.pass(secs(77));
    assert_eq!(lives.round().added.into_values().collect::<Vec<_>>(), [had]);

    let mut lives = group("incremental", 8, &["a", "b"]);
    lives.pace.round_interval = far;
    lives.join("c", TOPIC);
    lives.round();
    assert_eq!(lives.deferral().rejoin_after, Some(far));
    lives.pace.round_interval = secs(10);
    lives.round();
    assert_eq!(lives.deferral().rejoin_after, Some(secs(10)), "the next round");
    lives.pass(secs(10));
    assert_eq!(lives.round().revoked.values().map(BTreeSet::len).sum::<usize>(), 1);

    let mut lives = Lives::new("deferred", topics(&[("t", 2)]));
    lives.pace.initial_delay = far;
    lives.join("a", TOPIC);
    lives.round();
    assert_eq!(lives.deferral().rejoin_after, Some(far));
    lives.pace.initial_delay = secs(5);
    lives.round();
    assert_eq!(lives.deferral().rejoin_after, Some(secs(5)), "the first members");
    lives.pass(secs(5));
    lives.round();
    assert_eq!(lives.owned("a").len(), 2);
}
