//! Compares the assignors with Kafka's own: `tests/golden/assignors.jsonl` has the targets that Kafka computed for
//! groups over several changes.

use monedula_protocol::java::in_hash_order;
use serde_json::Value;

use super::*;

fn partitions(value: &Value) -> Partitions {
    let topics = value.as_object().unwrap().iter();
    topics
        .flat_map(|(topic, numbers)| {
            let topic: Uuid = topic.parse().unwrap();
            numbers.as_array().unwrap().iter().map(move |number| (topic, number.as_i64().unwrap() as i32))
        })
        .collect()
}

fn member(value: &Value) -> MemberSpec {
    MemberSpec {
        id: value["id"].as_str().unwrap().into(),
        instance_id: value["instance"].as_str().map(Into::into),
        topics: value["topics"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect(),
        target: partitions(&value["before"]),
    }
}

#[test]
fn targets_are_those_of_kafka() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/assignors.jsonl");
    let lines = std::fs::read_to_string(golden).unwrap();
    let mut count = 0;
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let asked = case["members"].as_array().unwrap();
        let mut members: Vec<_> = asked.iter().map(member).collect();
        in_hash_order(&mut members, |member| &member.id);
        let counts = case["topics"].as_object().unwrap().iter();
        let topics = counts.map(|(id, count)| (id.parse().unwrap(), count.as_i64().unwrap() as i32)).collect();
        let taken = members.iter().flat_map(|member| member.target.iter()).collect();
        let spec = Spec { members, homogeneous: case["homogeneous"].as_bool().unwrap(), topics, taken };
        let mut targets = Assignor::by_name(case["assignor"].as_str().unwrap()).unwrap().assign(&spec);
        for member in asked {
            let target = targets.remove(member["id"].as_str().unwrap()).unwrap_or_default();
            assert_eq!(target, partitions(&member["target"]), "{} in {line}", member["id"]);
        }
        assert!(targets.is_empty(), "members that nobody knows: {targets:?}");
        count += 1;
    }
    assert!(count > 400, "{count} cases");
}
