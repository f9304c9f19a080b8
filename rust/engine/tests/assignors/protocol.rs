//! The consumer protocol's subscriptions and assignments, compared with the bytes of Kafka's own consumer:
//! `tests/golden/consumer_protocol.jsonl`.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::assign::{
    LastAssignment, MemberAssignment, assignment_bytes, builtin, read_assignment, read_subscriptions,
    subscription_bytes,
};

use crate::golden::{bytes, lines, partitions};

/// The version that we write; older ones are read.
const WRITTEN: u64 = 3;

#[test]
fn subscriptions_are_those_of_java() {
    let topics: BTreeSet<Arc<str>> = ["b".into(), "c".into()].into();
    let mut written = 0;
    for line in lines("consumer_protocol") {
        let Some(theirs) = bytes(&line["subscription"]) else { continue };
        let version = line["version"].as_u64().unwrap();
        let read = read_subscriptions(&[("m".into(), Some("i".into()), theirs.clone())]).unwrap().remove(0);
        assert_eq!((&*read.member_id, read.instance_id.as_deref()), ("m", Some("i")));
        assert_eq!(read.topics, topics.iter().cloned().collect::<Vec<_>>(), "{line}");
        assert_eq!(read.user_data, bytes(&line["user_data"]), "{line}");
        let sorted: BTreeSet<_> = read.owned.iter().cloned().collect();
        let told = if version >= 1 { partitions(&line["owned"]) } else { Vec::new() };
        assert_eq!(sorted, told.into_iter().collect(), "{line}");
        let generation = line["generation"].as_i64().unwrap() as i32;
        assert_eq!(read.generation, if version >= 2 { generation } else { -1 }, "{line}");
        let rack = line["rack"].as_str().filter(|_| version >= 3);
        assert_eq!(read.rack.as_deref(), rack, "{line}");
        if version != WRITTEN {
            continue;
        }
        let assignor = builtin(line["assignor"].as_str().unwrap()).unwrap();
        let partitions_last = partitions(&line["last"]).into_iter().collect();
        let last = LastAssignment { generation, partitions: partitions_last, ..Default::default() };
        let owned = partitions(&line["owned"]).into_iter().collect();
        let ours = subscription_bytes(&*assignor, &topics, &owned, generation, &last, rack).unwrap();
        assert_eq!(ours, theirs, "{line}");
        written += 1;
    }
    assert_eq!(written, 27);
}

#[test]
fn assignments_are_those_of_java() {
    let mut count = 0;
    for line in lines("consumer_protocol") {
        let Some(theirs) = bytes(&line["assignment"]) else { continue };
        let expected =
            MemberAssignment { partitions: partitions(&line["owned"]), user_data: bytes(&line["user_data"]) };
        assert_eq!(read_assignment(&theirs).unwrap(), expected, "{line}");
        if line["version"] == WRITTEN {
            assert_eq!(assignment_bytes(&expected).unwrap(), theirs, "{line}");
        }
        count += 1;
    }
    assert_eq!(count, 36);
}
