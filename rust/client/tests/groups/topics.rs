//! Topics that are created, deleted and recreated under a subscription; fetching by the member's rack.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use monedula_broker::control::Command;
use monedula_broker::{Effect, Fault, NodeId, Selector};
use monedula_client::group::{CallbackKind, Listens, Subscribed};
use monedula_engine::assign::{AssignError, Assignment, Assignor, MemberSubscription, Protocol, Topics, builtin};
use serde_json::json;

use crate::support::{GROUP, User, World, until};

crate::under_both_protocols!(
    a_topic_that_is_deleted_is_given_up_without_an_error_and_read_again_once_it_is_back,
    a_topic_that_is_made_anew_at_once_is_read_from_its_first_record,
    an_offset_of_a_topic_that_was_made_anew_is_not_committed_to_the_new_one,
    a_topic_that_brokers_do_not_know_at_first_is_assigned_once_they_do,
    a_topic_that_is_created_after_it_was_subscribed_to_is_read_soon,
    the_rack_is_told_to_whom_records_are_fetched_from,
);

fn create(world: &World, topic: &str) {
    let (topic, config) = (topic.to_owned(), BTreeMap::new());
    world.control(Command::CreateTopic { topic, partitions: Some(1), replicas: None, config });
}

fn topics(user: &User) -> BTreeSet<String> {
    user.consumer.assignment().iter().map(|partition| partition.topic.to_string()).collect()
}

fn a_topic_that_is_deleted_is_given_up_without_an_error_and_read_again_once_it_is_back(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 5);
    let mut user = world.consumer(&[("metadata.max.age.ms", "50")]);
    user.subscribe(&["orders"]);
    user.poll_until("all is read", |user| user.rows() == 5);
    world.control(Command::DeleteTopic { topic: "orders".into() });
    // Each poll would panic on an error.
    user.poll_until("it is given up", |user| user.owned().is_empty());
    create(&world, "orders");
    world.append("orders", 0, 3);
    user.poll_until("the new one is read from its beginning", |user| user.rows() == 8);
    assert_eq!(user.read[&0], [0, 1, 2, 3, 4, 0, 1, 2]);
}

// Recreated with the same number of partitions before any client notices: under the classic protocol
// the assignment does not change. The reset policy (latest) would skip the records written until then.
fn a_topic_that_is_made_anew_at_once_is_read_from_its_first_record(protocol: &str) {
    let world = World::under(protocol, &["orders:1", "other:1"], 1);
    let mut user = world.consumer(&[("metadata.max.age.ms", "50"), ("auto.offset.reset", "latest")]);
    user.subscribe(&["orders"]);
    let first = crate::support::partition("orders", 0);
    user.poll_until("it is at the end", |user| {
        user.consumer.status(&first).is_ok_and(|status| status.position == Some(0))
    });
    for round in 1..=3 {
        world.append("orders", 0, 5);
        user.poll_until("all is read", |user| user.rows() == 5);
        user.poll_until("and committed", |_| world.committed("orders").get(&0) == Some(&5));
        user.read.clear();
        user.called.clear();
        world.control(Command::DeleteTopic { topic: "orders".into() });
        create(&world, "orders");
        world.append("orders", 0, 3);
        // Each poll would panic on an error.
        user.poll_until("the new one is read from its beginning", |user| user.rows() == 3);
        assert_eq!(user.read[&0], [0, 1, 2], "round {round}");
        // Under KIP-848 the target assignment may arrive before the metadata shows that the topic was recreated.
        let gone = [CallbackKind::Lost, CallbackKind::Revoked];
        let gone = if protocol == "classic" { &gone[..1] } else { &gone[..] };
        let taken = |user: &User| user.called.iter().filter(|(kind, _)| gone.contains(kind)).count();
        assert_eq!(taken(&user), 1, "{:?}", user.called);
        user.poll_until("the new one's offset is committed", |_| world.committed("orders").get(&0) == Some(&3));
        world.append("orders", 0, 2);
        user.poll_until("and it goes on", |user| user.rows() == 5);
        user.read.clear();
        world.control(Command::DeleteTopic { topic: "orders".into() });
        create(&world, "orders");
        user.poll_until("it is taken away again", |user| taken(user) == 2);
        user.poll_until("and at its beginning", |user| {
            user.consumer.status(&first).is_ok_and(|status| status.position == Some(0))
        });
    }
}

// The member does not know yet that the topic was recreated. Named by topic, the offset would apply to the new one.
fn an_offset_of_a_topic_that_was_made_anew_is_not_committed_to_the_new_one(protocol: &str) {
    let world = World::under(protocol, &["orders:1"], 1);
    world.append("orders", 0, 5);
    let mut user = world.consumer(&[("enable.auto.commit", "false")]);
    user.subscribe(&["orders"]);
    user.poll_until("all is read", |user| user.rows() == 5);
    let held = world.fault(&["Metadata"], Effect::Hold, None);
    world.control(Command::DeleteTopic { topic: "orders".into() });
    create(&world, "orders");
    let outcome = user.commit_last(&world).expect("an outcome");
    assert!(outcome.values().all(|(_, outcome)| outcome.is_err()), "{outcome:?}");
    assert_eq!(world.committed("orders"), BTreeMap::new());
    held.remove().expect("removed");
    world.append("orders", 0, 3);
    user.poll_until("the new one is read", |user| user.rows() == 8);
    user.commit_last(&world).expect("commits");
    assert_eq!(world.committed("orders"), BTreeMap::from([(0, 3)]));
}

// A topic that was just created is not known to every broker yet. The leader assigned none of its partitions then, and
// nobody asked again before `metadata.max.age.ms`: the member was Stable and owned nothing for five minutes.
fn a_topic_that_brokers_do_not_know_at_first_is_assigned_once_they_do(protocol: &str) {
    // The first of them refuse what the member asks for itself, later ones what it asks for as the leader.
    for (skip, count) in [(0, 1), (0, 2), (0, 4), (1, 1), (1, 3)] {
        let world = World::under(protocol, &["orders:3"], 1);
        let what = Effect::Error { error: "UNKNOWN_TOPIC_OR_PARTITION".into(), whole: false };
        let when = Selector { apis: vec!["Metadata".into()], topic: Some("orders".into()), ..Selector::default() };
        let fault = Fault { when, what, skip, count: Some(count), ..Fault::default() };
        let unknown = world.broker.fault(fault).expect("a fault");
        let mut user = world.consumer(&[]);
        user.subscribe(&["orders"]);
        user.poll_until("it is owned", |user| user.owned() == [0, 1, 2].into());
        assert!(protocol == "consumer" || unknown.hits().expect("a number") > 0, "{skip} {count}");
    }
}

/// An assignor that waits for a word before it assigns for the first time.
struct Slow {
    assignor: Arc<dyn Assignor>,
    asked: AtomicBool,
    go_on: Mutex<Receiver<()>>,
}

impl Assignor for Slow {
    fn name(&self) -> &str {
        self.assignor.name()
    }

    fn protocol(&self) -> Protocol {
        self.assignor.protocol()
    }

    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        if !self.asked.swap(true, Ordering::SeqCst) {
            assert!(topics.is_empty(), "no broker knows the topic");
            self.go_on.lock().expect("a lock").recv().expect("the test's word");
        }
        self.assignor.assign(topics, members)
    }
}

// The leader was stable, owned nothing, and knew the topic: it had learned of it while its assignment was computed.
#[test]
fn a_topic_that_becomes_known_while_partitions_are_assigned_is_assigned_next() {
    let world = World::new(&["orders:3"], 1);
    let what = Effect::Error { error: "UNKNOWN_TOPIC_OR_PARTITION".into(), whole: false };
    let when = Selector { apis: vec!["Metadata".into()], topic: Some("orders".into()), ..Selector::default() };
    let unknown = world.broker.fault(Fault { when, what, ..Fault::default() }).expect("a fault");
    let (go_on, word) = std::sync::mpsc::channel();
    let (assignor, asked) = (builtin("range").expect("an assignor"), AtomicBool::new(false));
    let slow = Arc::new(Slow { assignor, asked, go_on: Mutex::new(word) });
    let mut user = world.consumer_with(&[], vec![slow.clone()]);
    user.subscribe(&["orders"]);
    let is_doubtful = |user: &User| user.consumer.group_status().is_some_and(|status| status.has_doubtful_topics);
    user.poll_until("it assigns", |user| slow.asked.load(Ordering::SeqCst) && is_doubtful(user));
    unknown.remove().expect("removed");
    user.poll_until("the topic is known", |user| !is_doubtful(user));
    go_on.send(()).expect("it waits");
    user.poll_until("it is owned", |user| user.owned() == [0, 1, 2].into());
}

fn a_topic_that_is_created_after_it_was_subscribed_to_is_read_soon(protocol: &str) {
    let world = World::under(protocol, &["other:1"], 1);
    let mut user = world.consumer(&[("auto.offset.reset", "latest")]);
    user.subscribe(&["orders"]);
    let asked = world.fault(&["Metadata"], Effect::Observe, None);
    user.poll_until("it is asked for again", |_| asked.hits().expect("a number") > 3);
    create(&world, "orders");
    world.append("orders", 0, 5);
    user.poll_until("all is read", |user| user.rows() == 5);
}

// The policy `latest` would skip its records, but it applies only to topics that existed before.
#[test]
fn a_topic_that_comes_under_a_pattern_of_the_brokers_is_read_from_its_first_record() {
    let world = World::under("consumer", &["orders-eu:1", "invoices:1"], 1);
    world.append("orders-eu", 0, 5);
    let mut user = world.consumer(&[("auto.offset.reset", "latest")]);
    let what = Subscribed::ServerPattern("orders-.*".into());
    user.consumer.subscribe(what, Listens::default()).expect("subscribes");
    user.poll_until("what is there is owned", |user| topics(user) == ["orders-eu".into()].into());
    user.poll_until("and is at its end", |user| {
        user.consumer.status(&crate::support::partition("orders-eu", 0)).is_ok_and(|status| status.position == Some(5))
    });
    create(&world, "orders-us");
    world.append("orders-us", 0, 7);
    create(&world, "invoices-us");
    user.poll_until("the new one is read", |user| user.rows() == 7);
    assert_eq!(user.read[&0], (0..7).collect::<Vec<_>>());
    assert_eq!(topics(&user), ["orders-eu".into(), "orders-us".into()].into());
}

fn the_rack_is_told_to_whom_records_are_fetched_from(protocol: &str) {
    let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
    let settings = [("replica.selector.class", selector), ("default.replication.factor", "3")];
    let world = World::with_settings(protocol, &["orders:1"], 3, &settings);
    for node in [1, 2, 3] {
        world.control(Command::SetRack { node: NodeId(node), rack: Some(format!("r{node}")) });
    }
    world.control(Command::MoveLeader { topic: "orders".into(), partition: 0, node: NodeId(1) });
    let mut user = world.consumer(&[("client.rack", "r3")]);
    user.subscribe(&["orders"]);
    user.poll_until("it is owned", |user| user.owned().len() == 1);
    if protocol == "consumer" {
        let member = &world.control(Command::Group { group: GROUP.into() })["members"][0];
        assert_eq!(member["rack"], json!("r3"));
    }
    let near = world.observe_at(3, "Fetch");
    until("the replica in the same rack is read", || {
        world.append("orders", 0, 1);
        user.poll().expect("a poll") && near.hits().unwrap() > 0
    });
}
