//! Deferred rebalancing: partitions reserved for lost members (Design II of seed 001). `moves.rs` has Design III.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;

use crate::group::topics;
use crate::moves::begun;
use crate::rounds::{Lives, Partitions, Round};

pub(crate) const TOPIC: &[&str] = &["t"];
pub(crate) const WAIT: Duration = Duration::from_secs(300);
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn set(indexes: &[i32]) -> Partitions {
    indexes.iter().map(|&index| TopicPartition::new("t", index)).collect()
}

fn named(topic: &str, indexes: &[i32]) -> Partitions {
    indexes.iter().map(|&index| TopicPartition::new(topic, index)).collect()
}

/// A group of these members with one partition each, as in the seed's examples.
fn one_each(assignor: &'static str, ids: &[&str]) -> Lives {
    let mut lives = Lives::new(assignor, topics(&[("t", ids.len())]));
    for id in ids {
        lives.join(id, TOPIC);
    }
    lives.round();
    assert_eq!(lives.owners().len(), ids.len());
    assert!(ids.iter().all(|id| lives.owned(id).len() == 1));
    lives
}

pub(crate) fn a_to_d() -> Lives {
    one_each("deferred", &["a", "b", "c", "d"])
}

pub(crate) fn moved_nothing(round: &Round) -> bool {
    round.revoked.is_empty() && round.added.is_empty()
}

/// Removes a member, and rebalances the others. Returns the partitions that it had.
pub(crate) fn lose(lives: &mut Lives, id: &str) -> Partitions {
    let had = lives.members.remove(id).expect("a member").owned;
    let round = lives.round();
    assert!(moved_nothing(&round), "nobody has to stop anything for {id}: {round:?}");
    assert!(had.iter().all(|partition| !lives.owners().contains_key(partition)), "what {id} had is nobody's");
    had
}

// req: S046 S133
#[test]
fn what_a_lost_member_had_is_nobodys_until_a_deadline_that_every_member_is_told() {
    let mut lives = a_to_d();
    lives.pace.max_delay = secs(77);
    let kept = lives.owners();
    let had = lose(&mut lives, "d");
    assert_eq!(lives.deferral().rejoin_after, Some(secs(77)));
    for (id, life) in &lives.members {
        assert_eq!(life.last.user_data, lives.told, "{id} was told too");
        assert_eq!(life.owned, kept.iter().filter(|(_, owner)| *owner == id).map(|(one, _)| one.clone()).collect());
    }
    // Other rebalances before the deadline move nothing.
    for left in [76, 50, 1] {
        lives.pass(secs(77 - left) - (lives.now));
        assert!(moved_nothing(&lives.round()));
        assert_eq!(lives.deferral().rejoin_after, Some(secs(left)), "the deadline stays where it is");
    }
    lives.pass(secs(1));
    let round = lives.round();
    assert!(round.revoked.is_empty(), "{round:?}");
    assert_eq!(round.added.into_values().collect::<Vec<_>>(), [had]);
    assert_eq!(lives.deferral().rejoin_after, None);
}

// req: S047
#[test]
fn who_comes_back_in_time_gets_what_it_had_and_nothing_else_moves() {
    let mut lives = a_to_d();
    let had = lose(&mut lives, "d");
    lives.pass(WAIT - secs(1));
    lives.join("d-again", TOPIC);
    let round = lives.round();
    assert_eq!((round.revoked.len(), round.added), (0, [("d-again".into(), had)].into()));
    assert_eq!(lives.deferral().rejoin_after, None, "nothing is waited for any more");
    // The member comes back too late: another member owns its partition by then.
    let had = lose(&mut lives, "d-again");
    lives.pass(WAIT);
    let round = lives.round();
    assert_eq!((round.revoked.len(), round.added.into_values().collect::<Vec<_>>()), (0, vec![had]));
    lives.join("d-late", TOPIC);
    let (first, second) = (lives.round(), lives.round());
    assert_eq!((first.added.len(), second.added.len()), (0, 1), "as anyone who is new: revoked, then assigned");
}

// A restart within one rebalance: the leader sees the loss and the new member at the same time.
#[test]
fn a_member_that_is_back_before_the_others_met_is_not_waited_for() {
    let mut lives = a_to_d();
    let had = lives.members.remove("b").expect("a member").owned;
    lives.join("b-again", TOPIC);
    let round = lives.round();
    assert_eq!((round.revoked.len(), round.added), (0, [("b-again".into(), had)].into()));
    assert_eq!(lives.deferral().rejoin_after, None);
}

// req: S048
#[test]
fn new_topics_partitions_and_members_are_served_at_once_also_during_a_wait() {
    for waiting in [false, true] {
        let mut lives = a_to_d();
        let mut lost = Partitions::new();
        if waiting {
            lost = lose(&mut lives, "d");
            lives.pass(secs(10));
        }
        // A topic is added to the subscription, and partitions are added to a topic.
        lives.topics = topics(&[("t", 6), ("new", 3)]);
        lives.members.get_mut("a").expect("a member").topics.insert("new".into());
        let round = lives.round();
        let added: Partitions = round.added.into_values().flatten().collect();
        assert_eq!(added, &set(&[4, 5]) | &named("new", &[0, 1, 2]), "waiting: {waiting}");
        assert_eq!(lives.deferral().rejoin_after, waiting.then_some(WAIT - secs(10)));
        lives.settle_in_time();
        assert_eq!(lives.owners().len(), 9);
        assert!(lost.iter().all(|partition| lives.owners().contains_key(partition)));
    }
    // One member more than before the loss: its share is revoked at once, and then assigned.
    let mut lives = Lives::new("deferred", topics(&[("t", 6)]));
    lives.join("a", TOPIC);
    lives.join("b", TOPIC);
    lives.round();
    lives.join("c", TOPIC);
    let (first, second) = (lives.round(), lives.round());
    assert_eq!(first.revoked.values().map(BTreeSet::len).sum::<usize>(), 2);
    assert_eq!(second.added["c"].len(), 2);
    assert_eq!(lives.deferral().rejoin_after, None);
}

// req: S130
#[test]
fn a_group_that_grows_and_shrinks_moves_what_it_must_and_shrinks_after_the_wait() {
    let mut lives = Lives::new("deferred", topics(&[("t", 12)]));
    lives.join("a", TOPIC);
    lives.round();
    for (count, id) in (2..).zip(["b", "c", "d"]) {
        lives.join(id, TOPIC);
        let (first, second) = (lives.round(), lives.round());
        let share = 12 / count;
        assert_eq!(first.revoked.values().map(BTreeSet::len).sum::<usize>(), share, "by {id}");
        assert_eq!((second.revoked.len(), second.added[id].len()), (0, share));
        lives.pass(WAIT);
    }
    for id in ["d", "b", "a"] {
        let had = lose(&mut lives, id);
        lives.pass(WAIT);
        let round = lives.round();
        assert!(round.revoked.is_empty());
        assert_eq!(round.added.values().flatten().cloned().collect::<Partitions>(), had);
        let sizes: BTreeSet<usize> = lives.members.values().map(|life| life.owned.len()).collect();
        assert_eq!(sizes.len(), 1, "12 go evenly into 3, 2 and 1");
    }
}

// req: S129
#[test]
fn when_members_bounce_in_turn_each_ends_with_what_it_had_and_nobody_else_ever_has_it() {
    for members in 2..=8 {
        let ids: Vec<String> = (0..members).map(|number| format!("m-{number}")).collect();
        let mut lives = Lives::new("deferred", topics(&[("t", 20), ("u", 1), ("v", 3)]));
        for id in &ids {
            lives.join(id, &["t", "u", "v"]);
        }
        lives.round();
        let had: BTreeMap<String, Partitions> =
            lives.members.iter().map(|(id, life)| (id.clone(), life.owned.clone())).collect();
        for id in &ids {
            assert_eq!(lose(&mut lives, id), had[id]);
            lives.pass(secs(30));
            lives.join(&format!("{id}-again"), &["t", "u", "v"]);
            let round = lives.round();
            assert_eq!((round.revoked.len(), round.added), (0, [(format!("{id}-again"), had[id].clone())].into()));
        }
    }
}

#[test]
fn of_several_that_are_lost_each_that_comes_back_gets_a_part_and_each_loss_has_its_own_deadline() {
    let mut lives = one_each("deferred", &["a", "b", "c", "d", "e", "f"]);
    lives.topics = topics(&[("t", 12)]);
    lives.round();
    // Two members are lost at once, and another one later.
    let first = &lives.members.remove("e").expect("a member").owned | &lives.members["f"].owned;
    lives.members.remove("f");
    assert!(moved_nothing(&lives.round()));
    lives.pass(secs(100));
    let second = lose(&mut lives, "d");
    assert_eq!(lives.deferral().rejoin_after, Some(secs(200)));
    lives.pass(secs(50));
    lives.join("g", TOPIC);
    let round = lives.round();
    assert!(round.revoked.is_empty());
    assert!(round.added["g"].is_subset(&first) && round.added["g"].len() == 2, "the part of one: {round:?}");
    assert_eq!(lives.deferral().rejoin_after, Some(secs(150)), "the other one is waited for");
    lives.pass(secs(150));
    let round = lives.round();
    let given: Partitions = round.added.into_values().flatten().collect();
    assert!(given.is_subset(&first) && given.len() == 2);
    assert_eq!(lives.deferral().rejoin_after, Some(secs(100)), "the third is waited for from when it was lost");
    lives.pass(secs(100));
    assert_eq!(lives.round().added.into_values().flatten().collect::<Partitions>(), second);
}

// req: S049
#[test]
fn whoever_leads_next_keeps_the_deadline_that_members_know_and_assumes_none_where_they_know_none() {
    // The leader, a, is lost while the group waits for d. Only what the other members know is left.
    let mut lives = a_to_d();
    let of_d = lose(&mut lives, "d");
    lives.pass(secs(200));
    let of_a = lose(&mut lives, "a");
    let schedule = lives.schedule();
    let left: Vec<_> = schedule.losses.iter().map(|loss| (loss.remaining, loss.partitions.clone())).collect();
    assert_eq!(left, [(secs(100), of_d.clone()), (WAIT, of_a.clone())], "a lost leader is a lost member");
    lives.pass(secs(100));
    assert_eq!(lives.round().added.into_values().flatten().collect::<Partitions>(), of_d);
    // A new member leads members that know of no wait: for it there was none, so partitions without an owner count as
    // lost now.
    for life in lives.members.values_mut() {
        life.last.user_data = None;
    }
    lives.join("0-leads", TOPIC);
    let round = lives.round();
    assert_eq!((round.revoked.len(), round.added), (0, [("0-leads".into(), of_a)].into()));
    assert_eq!(lives.deferral().rejoin_after, None);
}

// req: S131
#[test]
fn a_topic_that_nobody_owns_anything_of_is_new_and_anything_else_is_lost() {
    let mut lives = Lives::new("deferred", topics(&[("t", 4), ("u", 1)]));
    for id in ["a", "b", "c"] {
        lives.join(id, &["t", "u"]);
    }
    lives.round();
    let owner = lives.owners()[&TopicPartition::new("u", 0)].clone();
    let had = lives.members.remove(&owner).expect("a member").owned;
    // Members without user data, as after a change of the assignor.
    let known: Vec<_> = lives.members.values_mut().map(|life| life.last.user_data.take()).collect();
    let before = lives.members.clone();
    let round = lives.round();
    assert_eq!(round.added.into_values().flatten().collect::<Partitions>(), named("u", &[0]));
    assert_eq!(lives.schedule().losses[0].partitions, &had - &named("u", &[0]));
    // Members with user data know that the topic is not new.
    lives.members = before;
    for (life, known) in lives.members.values_mut().zip(known) {
        life.last.user_data = known;
    }
    assert!(moved_nothing(&lives.round()));
    assert_eq!(lives.schedule().losses[0].partitions, had);
}

// req: S132
#[test]
fn a_newcomer_is_told_from_a_member_that_has_nothing_whoever_leads() {
    for knows in [true, false] {
        // E is a member like the others, and owns nothing because there are only four partitions.
        let mut lives = Lives::new("deferred", topics(&[("t", 4)]));
        for id in ["a", "b", "c", "d", "e"] {
            lives.join(id, TOPIC);
        }
        lives.round();
        assert!(lives.owned("e").is_empty());
        let had = lives.members.remove("d").expect("a member").owned;
        if !knows {
            for life in lives.members.values_mut() {
                life.last.user_data = None;
            }
        }
        assert!(moved_nothing(&lives.round()), "nobody is new");
        lives.join("d-again", TOPIC);
        let round = lives.round();
        assert_eq!(round.added.values().flatten().cloned().collect::<Partitions>(), had);
        assert!(round.revoked.is_empty());
    }
    // The user data of a member is unreadable: then a member that owns nothing counts as new.
    let mut lives = a_to_d();
    let had = lives.members.remove("d").expect("a member").owned;
    lives.join("d-again", TOPIC);
    lives.members.get_mut("d-again").expect("a member").garbles = true;
    assert_eq!(lives.round().added, [("d-again".into(), had)].into());
}

// The rebalance in which d comes back is overtaken by the next one, so nobody got its assignment.
#[test]
fn one_that_came_back_and_got_no_assignment_is_still_new() {
    let mut lives = a_to_d();
    let had = lose(&mut lives, "d");
    lives.join("d-again", TOPIC);
    for heard in [0, 2] {
        for (place, life) in lives.members.values_mut().enumerate() {
            life.deaf = place >= heard;
        }
        lives.round();
    }
    lives.members.values_mut().for_each(|life| life.deaf = false);
    lives.round();
    assert_eq!(lives.owned("d-again"), &had);
    assert_eq!(lives.deferral().rejoin_after, None);
}

#[test]
fn what_was_on_its_way_to_another_is_not_taken_for_lost() {
    let mut lives = Lives::new("deferred", topics(&[("t", 6)]));
    for id in ["a", "b"] {
        lives.join(id, TOPIC);
    }
    lives.round();
    lives.join("c", TOPIC);
    let moving: Partitions = lives.round().revoked.into_values().flatten().collect();
    // C joined too long before the loss to take b's place.
    lives.pass(WAIT);
    let had = lives.members.remove("b").expect("a member").owned;
    let round = lives.round();
    assert_eq!(round.added.into_values().flatten().collect::<Partitions>(), moving);
    assert_eq!(lives.schedule().losses[0].partitions, had);
}

// req: S050
#[test]
fn a_group_starts_at_once_or_after_a_delay() {
    for delay in [Duration::ZERO, secs(30)] {
        let mut lives = Lives::new("deferred", topics(&[("t", 6)]));
        lives.pace.initial_delay = delay;
        lives.join("a", TOPIC);
        assert_eq!(lives.round().added.is_empty(), !delay.is_zero());
        assert_eq!(lives.deferral().rejoin_after, Some(delay).filter(|delay| !delay.is_zero()));
        lives.pass(secs(20));
        lives.join("b", TOPIC);
        let round = lives.round();
        assert_eq!(round.revoked.is_empty(), !delay.is_zero(), "those who came first would have to give up");
        lives.pass(secs(10));
        lives.round();
        assert_eq!(["a", "b"].map(|id| lives.owned(id).len()), [3, 3]);
        assert_eq!(lives.deferral().rejoin_after, None);
        // The wait is over for good: c does not begin it again.
        lives.join("c", TOPIC);
        assert!(!lives.round().revoked.is_empty());
    }
}

// req: S039
#[test]
fn under_design_i_a_bounce_is_one_rebalance_on_leave_and_two_on_return() {
    let mut lives = one_each("cooperative-sticky", &["a", "b", "c", "d"]);
    let had = lives.members.remove("d").expect("a member").owned;
    let leave = lives.settle();
    assert_eq!((leave.len(), leave[0].revoked.len()), (1, 0));
    assert_eq!(leave[0].added.values().flatten().cloned().collect::<Partitions>(), had);
    lives.join("d-again", TOPIC);
    let back = lives.settle();
    assert_eq!(back.len(), 2);
    assert_eq!((begun(&back[0]), back[0].added.len()), (1, 0));
    assert_eq!((begun(&back[1]), back[1].added["d-again"].len()), (0, 1));
}

fn below(random: &mut Jitter, bound: usize) -> usize {
    (random.next() % bound as u64) as usize
}

/// Members are lost, join, change their subscription, are slow or miss an assignment, at random: a loss makes no other
/// member revoke anything, no round moves more than the limit, and in the end all partitions are assigned evenly.
#[test]
fn random_groups_keep_to_the_rules_and_end_even() {
    for seed in 0..400 {
        let mut random = Jitter::new(seed);
        let random = &mut random;
        let assignor = if seed % 2 == 0 { "deferred" } else { "incremental" };
        let mut lives = Lives::new(assignor, topics(&[("t", 9), ("u", 4), ("v", 1)]));
        let same = seed % 3 != 0;
        let most = [None, Some(1), Some(3)][below(random, 3)];
        (lives.pace.max_moves, lives.pace.max_delay) = (most, secs(60));
        let subscribed: [&[&str]; 3] = [&["t", "u", "v"], &["t", "u"], &["t", "v"]];
        let pick = |random: &mut Jitter| if same { subscribed[0] } else { subscribed[below(random, 3)] };
        lives.join("m-0", subscribed[0]);
        lives.join("m-1", pick(random));
        lives.settle_in_time();
        let mut starts: Vec<(Duration, usize)> = Vec::new();
        for step in 0..25 {
            let what = format!("seed {seed}, step {step}, {assignor}, {most:?}");
            let lost = match below(random, 5) {
                0 if lives.members.len() > 1 => {
                    let id = lives.members.keys().nth(below(random, lives.members.len())).cloned();
                    lives.members.remove(&id.expect("a member"));
                    true
                }
                1 => {
                    let topics = pick(random);
                    lives.join(&format!("m-{}", random.next() % 10_000), topics);
                    false
                }
                2 => {
                    let place = below(random, lives.members.len());
                    let life = lives.members.values_mut().nth(place).expect("a member");
                    life.slow = if life.slow.is_empty() { life.owned.clone() } else { Partitions::new() };
                    false
                }
                _ => false,
            };
            for life in lives.members.values_mut() {
                life.deaf = below(random, 12) == 0;
            }
            let moving = lives.schedule().moving;
            let balanced = !lives.schedule().unbalanced;
            let had = lives.owners();
            let knew = lives.members.values().all(|life| life.last.user_data == lives.told);
            let round = lives.round();
            let schedule = lives.schedule();
            let new: Partitions = schedule.moving.iter().filter(|one| !moving.contains(*one)).cloned().collect();
            assert!(new.iter().all(|partition| had.contains_key(partition)), "{what}: {round:?}");
            let nobody_new = lives.members.values().all(|life| life.deaf || life.last.generation >= 0);
            if lost && assignor == "deferred" && balanced && knew && nobody_new && !schedule.losses.is_empty() {
                assert!(new.is_empty(), "{what}: moved for a loss: {new:?}");
            }
            if let Some(most) = most.or((assignor == "incremental").then_some(2)).filter(|_| knew) {
                let close = |(at, _): &&(Duration, usize)| *at + INTERVAL > lives.now;
                let before: usize = starts.iter().filter(close).map(|(_, count)| count).sum();
                assert!(before + new.len() <= most, "{what}: {before} and {} moved", new.len());
                starts.push((lives.now, new.len()));
            }
            lives.pass(secs(random.next() % 30));
        }
        for life in lives.members.values_mut() {
            (life.slow, life.deaf) = (Partitions::new(), false);
        }
        lives.settle_in_time();
        let what = format!("seed {seed}, {assignor}, {most:?}");
        crate::properties::check_complete(&lives, &what);
        crate::properties::check_even(&lives, &what);
    }
}
