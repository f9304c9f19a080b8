//! Compares the assignors with those of Kafka's own consumer: `tests/golden/consumer_assignors.jsonl` has their
//! assignments for groups over several rebalances.

use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::assign::{
    Assignment, MemberAssignment, MemberSubscription, Topics, builtin, perform, read_assignment, read_subscriptions,
};
use monedula_protocol::base64;
use serde_json::Value;

use crate::group::assign;
use crate::score::{kept, last_owners, unevenness};

pub(crate) fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/golden/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("golden file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub(crate) fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| base64::decode(text).expect("base64"))
}

/// Partitions by topic.
pub(crate) fn partitions(value: &Value) -> Vec<TopicPartition> {
    let topics = value.as_object().expect("topics").iter();
    topics
        .flat_map(|(topic, indexes)| {
            let topic: Arc<str> = topic.as_str().into();
            let indexes = indexes.as_array().expect("indexes").iter();
            indexes.map(move |index| TopicPartition::new(topic.clone(), index.as_i64().expect("index") as i32))
        })
        .collect()
}

struct Case {
    assignor: String,
    topics: Topics,
    metadata: Vec<(String, Option<String>, Vec<u8>)>,
    members: Vec<MemberSubscription>,
    theirs: Assignment,
}

impl Case {
    fn read(line: &Value) -> Self {
        let racks =
            |racks: &Value| racks.as_str().expect("racks").chars().map(|rack| rack.to_string().into()).collect();
        let topics = line["topics"].as_object().expect("topics").iter().map(|(name, told)| {
            let partitions = match told.as_u64() {
                Some(count) => vec![Vec::new(); count as usize],
                None => told.as_array().expect("racks").iter().map(racks).collect(),
            };
            (name.as_str().into(), partitions)
        });
        let metadata: Vec<_> = line["members"]
            .as_array()
            .expect("members")
            .iter()
            .map(|member| {
                let text = |place: usize| member[place].as_str().map(str::to_owned);
                (text(0).expect("id"), text(1), bytes(&member[2]).expect("bytes"))
            })
            .collect();
        let members = read_subscriptions(&metadata).expect("subscriptions");
        let theirs = line["assigned"].as_object().expect("assigned").iter();
        let theirs = theirs
            .map(|(id, topics)| (id.clone(), MemberAssignment { partitions: partitions(topics), user_data: None }));
        Self {
            assignor: line["assignor"].as_str().expect("name").into(),
            topics: topics.collect(),
            metadata,
            members,
            theirs: theirs.collect(),
        }
    }

    /// Whether sticky members subscribe to different topics: the only case in which results may differ.
    fn general(&self) -> bool {
        self.assignor.ends_with("sticky") && self.members.iter().any(|member| member.topics != self.members[0].topics)
    }
}

/// The quality of an assignment, lower is better: partitions without an owner until they are revoked, partitions taken
/// from members, and unevenness. Under the cooperative protocol, only the next round shows the unevenness.
fn score(case: &Case, assignment: &Assignment) -> [usize; 3] {
    let last = last_owners(&case.assignor, &case.members);
    let assigned = assignment.values().map(|assigned| assigned.partitions.len()).sum::<usize>();
    let left_out = case.topics.values().map(Vec::len).sum::<usize>() - assigned;
    let uneven = if case.assignor == "sticky" { unevenness(assignment) } else { 0 };
    [left_out, last.len() - kept(assignment, &last), uneven]
}

#[test]
fn assignments_are_those_of_java_or_better() {
    let (mut equal, mut better) = (0, 0);
    for line in lines("consumer_assignors") {
        let case = Case::read(&line);
        let ours = assign(&case.assignor, &case.topics, &case.members);
        let performed = perform(&*builtin(&case.assignor).unwrap(), &case.topics, &case.metadata).unwrap();
        let told = |(id, bytes): (String, Vec<u8>)| (id, read_assignment(&bytes).unwrap());
        assert_eq!(performed.into_iter().map(told).collect::<Assignment>(), ours);
        if ours == case.theirs {
            equal += 1;
            continue;
        }
        assert!(case.general(), "{line}\n{ours:?}");
        let (our_score, their_score) = (score(&case, &ours), score(&case, &case.theirs));
        assert!(
            our_score.iter().zip(&their_score).all(|(ours, theirs)| ours <= theirs),
            "{our_score:?} {their_score:?}"
        );
        assert!(our_score != their_score, "different for nothing: {line}\n{ours:?}");
        better += 1;
    }
    // Where results differ, ours return partitions to their former owners that Java's do not.
    assert!(equal >= 500 && (10..=25).contains(&better), "{equal} equal, {better} better");
}
