//! Range and round robin, whose results are known beforehand.

use monedula_engine::assign::{BUILTIN, builtin};

use crate::group::{assign, member, owners, topics};

#[test]
fn assignors_answer_to_their_names() {
    for name in BUILTIN {
        assert_eq!(builtin(name).unwrap().name(), *name);
    }
    assert!(builtin("round-robin").is_none());
}

// req: S099
#[test]
fn round_robin_gives_partition_i_to_member_i_mod_n() {
    let topics = topics(&[("b", 4), ("a", 3), ("c", 6), ("a-longer", 2)]);
    // The members join in random order, and their ids sort differently from their numbers.
    let ids = ["m-3", "m-10", "m-2", "a", "m-1"];
    let subscribed = ["b", "c", "a", "ghost", "a-longer"];
    let members: Vec<_> = ids.iter().map(|id| member(id, &subscribed)).collect();
    let owners = owners(&assign("roundrobin", &topics, &members));
    let mut sorted = ids;
    sorted.sort();
    // A map of partitions is sorted by topic and index.
    assert_eq!(owners.len(), 15);
    for (i, (partition, owner)) in owners.iter().enumerate() {
        assert_eq!(owner, sorted[i % sorted.len()], "{partition}");
    }
}

#[test]
fn range_cuts_each_topic_into_runs() {
    let topics = topics(&[("t", 7), ("u", 1)]);
    let mut members = vec![member("c", &["t", "u"]), member("b", &["t"]), member("a", &["t", "u"])];
    // Static members come first, sorted by their instance ids.
    members[0].instance_id = Some("z".into());
    let owners = owners(&assign("range", &topics, &members));
    let runs: Vec<_> = owners.iter().map(|(partition, owner)| format!("{partition}={owner}")).collect();
    assert_eq!(runs.join(" "), "t-0=c t-1=c t-2=c t-3=a t-4=a t-5=b t-6=b u-0=c");
}
