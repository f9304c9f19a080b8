//! Properties that hold in any group: random members over many rebalances.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::assign::BUILTIN;
use monedula_engine::backoff::Jitter;

use crate::group::topics;
use crate::rounds::Lives;

const SEEDS: u64 = 150;
const STEPS: usize = 12;

fn below(random: &mut Jitter, bound: usize) -> usize {
    (random.next() % bound as u64) as usize
}

/// Every partition that someone subscribes to has one owner, who subscribes to it.
pub(crate) fn check_complete(lives: &Lives, what: &str) {
    let subscribed: BTreeSet<&Arc<str>> = lives.members.values().flat_map(|life| &life.topics).collect();
    let wanted = lives.topics.iter().filter(|(topic, _)| subscribed.contains(topic));
    let owners = lives.owners();
    assert_eq!(owners.len(), wanted.map(|(_, partitions)| partitions.len()).sum::<usize>(), "{what}");
    for (partition, owner) in owners {
        assert!(lives.members[&owner].topics.contains(&partition.topic), "{what}: {partition} of {owner}");
        assert!((partition.partition as usize) < lives.topics[&partition.topic].len(), "{what}: {partition} is gone");
    }
}

/// No member has two partitions more than another one that could take one of them.
pub(crate) fn check_even(lives: &Lives, what: &str) {
    for (partition, owner) in lives.owners() {
        for (id, life) in &lives.members {
            let uneven = lives.owned(&owner).len() > life.owned.len() + 1 && life.topics.contains(&partition.topic);
            assert!(!uneven, "{what}: {partition} of {owner} could be {id}'s");
        }
    }
}

fn change(lives: &mut Lives, random: &mut Jitter, same_topics: bool) {
    let all: Vec<Arc<str>> = lives.topics.keys().cloned().collect();
    let some =
        |random: &mut Jitter| all.iter().filter(|_| same_topics || random.next().is_multiple_of(2)).cloned().collect();
    match below(random, 6) {
        0 | 1 if lives.members.len() > 1 => {
            let gone = lives.members.keys().nth(below(random, lives.members.len())).cloned().expect("there is one");
            lives.members.remove(&gone);
        }
        2 => {
            let topic = &all[below(random, all.len())];
            let more = 1 + below(random, 4);
            let partitions = lives.topics.get_mut(topic).expect("there is one");
            partitions.resize(partitions.len() + more, Vec::new());
        }
        3 if !same_topics => {
            let wants = some(random);
            lives.members.values_mut().next().expect("there is one").topics = wants;
        }
        _ => {
            let id = format!("m-{}", random.next() % 100_000);
            lives.join(&id, &[]);
            lives.members.get_mut(&id).expect("there is one").topics = some(random);
        }
    }
}

#[test]
fn groups_that_live_on_are_complete_even_and_keep_what_they_can() {
    for seed in 0..SEEDS {
        for assignor in BUILTIN {
            let mut random = Jitter::new(seed);
            let same_topics = seed % 2 == 0;
            let mut lives = Lives::new(assignor, topics(&[("a", 1), ("b", 7), ("c", 12), ("d", 3), ("e", 5)]));
            lives.join("first", &["a", "b", "c", "d", "e"]);
            for step in 0..STEPS {
                let what = format!("{assignor}, seed {seed}, step {step}");
                change(&mut lives, &mut random, same_topics);
                let before = lives.owners();
                lives.settle();
                check_complete(&lives, &what);
                if ["range", "roundrobin"].contains(assignor) {
                    continue;
                }
                check_even(&lives, &what);
                if same_topics {
                    check_moves(&lives, &before, &what);
                }
            }
        }
    }
}

/// If all members subscribe to the same topics, each keeps up to its share, and the extra partitions stay with members
/// that have one.
fn check_moves(
    lives: &Lives,
    before: &std::collections::BTreeMap<monedula_engine::TopicPartition, String>,
    what: &str,
) {
    let after = lives.owners();
    let (least, odd) = (after.len() / lives.members.len(), after.len() % lives.members.len());
    let had = lives.members.keys().map(|id| before.values().filter(|owner| *owner == id).count());
    let had: Vec<_> = had.collect();
    let most = had.iter().map(|&count| count.min(least)).sum::<usize>();
    let most = most + had.iter().filter(|&&count| count > least).count().min(odd);
    let kept = before.iter().filter(|(partition, owner)| after.get(*partition) == Some(*owner)).count();
    assert_eq!(kept, most, "{what}");
}
