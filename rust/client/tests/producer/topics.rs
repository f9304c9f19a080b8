//! Topics that grow or are forgotten, and how long records wait for metadata.

use std::time::{Duration, Instant};

use monedula_broker::Effect;
use monedula_broker::control::Command;
use monedula_client::error::ClientError;
use monedula_client::producer::{Producer, ProducerHealth, Record, RecordFuture};

use crate::support::{PATIENCE, World, delivered, failure, send};

/// Waits until the producer's health meets the condition.
fn wait_for(producer: &Producer, wanted: impl Fn(&ProducerHealth) -> bool) -> ProducerHealth {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let health = producer.health();
        if wanted(&health) {
            return health;
        }
        assert!(Instant::now() < deadline, "{health:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send_to(producer: &Producer, partition: i32, value: &str) -> RecordFuture {
    let record =
        Record { topic: "events", partition: Some(partition), value: Some(value.as_bytes()), ..Record::default() };
    producer.send(&record).expect("taken")
}

const DELIVERY_TIMEOUT: Duration = Duration::from_secs(3);

/// Sends a record whose delivery timeout has passed already.
fn send_late(producer: &Producer, topic: &str) -> RecordFuture {
    let since = Instant::now().checked_sub(DELIVERY_TIMEOUT);
    producer.send(&Record { topic, since, ..Record::default() }).expect("taken")
}

#[test]
fn the_time_that_a_record_waited_for_its_topic_counts() {
    let world = World::new(&["known:1"], 1);
    let settings = [("delivery.timeout.ms", "3000"), ("request.timeout.ms", "1000"), ("linger.ms", "500")];
    let producer = world.producer(&settings);
    // A record's time never starts before the producer. Once a record has expired, the producer is older than the
    // delivery timeout.
    let held = world.fault(&["Produce"], Effect::Hold, None);
    let expired = failure(&send(&producer, "known", None, "held"));
    assert!(expired.contains("delivery.timeout.ms=3000"), "{expired}");
    held.remove().expect("removes");
    let late = send_late(&producer, "events");
    world.control(Command::CreateTopic {
        topic: "events".into(),
        partitions: Some(1),
        replicas: None,
        config: Default::default(),
    });
    let error = failure(&late);
    assert!(error.contains("events-0") && error.contains("delivery.timeout.ms=3000"), "{error}");
    // A late record must not wait as long as the open batch that it joins.
    delivered(&send(&producer, "known", None, "first"));
    let (_open, late) = (send(&producer, "known", None, "lingers"), send_late(&producer, "known"));
    assert!(failure(&late).contains("delivery.timeout.ms=3000"));
}

#[test]
fn records_for_a_partition_that_was_just_added_wait_for_metadata() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[]);
    delivered(&send_to(&producer, 0, "first"));
    world.control(Command::AddPartitions { topic: "events".into(), partitions: 3 });
    let sent: Vec<_> = (0..500).map(|number| send_to(&producer, 2, &number.to_string())).collect();
    let offsets: Vec<_> = sent.iter().map(|sent| delivered(sent).offset.expect("an offset")).collect();
    assert_eq!(offsets, (0..500).collect::<Vec<i64>>());
    let rows = world.read("events", 2, 500);
    assert!(rows.iter().enumerate().all(|(number, row)| row.1 == Some(number.to_string())));
}

#[test]
fn a_partition_that_metadata_does_not_know_either_fails_its_records_only() {
    let world = World::new(&["events:2"], 1);
    let producer = world.producer(&[]);
    delivered(&send_to(&producer, 0, "first"));
    let sent = send_to(&producer, 7, "x");
    world.flush(&producer);
    let error = sent.try_outcome().expect("a flush waits for it").expect_err("no such partition");
    assert!(matches!(error, ClientError::UnknownPartition { partitions: 2, .. }), "{error}");
    assert_eq!(producer.health().records_unfinished, 0);
    assert_eq!(delivered(&send_to(&producer, 0, "second")).offset, Some(1));
    // A record that waits for metadata when the producer is closed fails as well.
    let held = world.fault(&["Metadata"], Effect::Hold, None);
    let sent = send_to(&producer, 7, "x");
    producer.close(Duration::from_millis(100));
    assert!(failure(&sent).contains("closed"));
    held.remove().expect("removes");
}

#[test]
fn health_says_what_is_under_way() {
    let world = World::new(&["events:2"], 1);
    let producer = world.producer(&[("linger.ms", "0")]);
    delivered(&send_to(&producer, 0, "first"));
    let held = world.fault(&["Produce"], Effect::Hold, None);
    let sent = send_to(&producer, 0, "held");
    let health = wait_for(&producer, |health| !health.in_flight.is_empty());
    assert_eq!((health.in_flight.get(&1), health.records_unfinished), (Some(&(1, 1)), 1));
    let parked = send(&producer, "nowhere", None, "parked");
    assert_eq!(wait_for(&producer, |health| health.topics == 2).records_unfinished, 2);
    held.release().expect("releases");
    held.remove().expect("removes");
    delivered(&sent);
    failure(&parked);
    let health = wait_for(&producer, |health| health.in_flight.is_empty());
    assert_eq!(health.records_unfinished, 0);
}

#[test]
fn topics_that_nobody_sends_to_are_forgotten() {
    let world = World::new(&["events:2", "others:1"], 1);
    let producer = world.producer(&[("metadata.max.idle.ms", "50")]);
    delivered(&send_to(&producer, 0, "first"));
    delivered(&send(&producer, "others", None, "first"));
    wait_for(&producer, |health| health.topics == 0);
    // After that the topic is looked up again, and its offsets continue.
    assert_eq!(delivered(&send_to(&producer, 0, "second")).offset, Some(1));
    let held = world.fault(&["Produce"], Effect::Hold, None);
    let sent = send_to(&producer, 0, "under way");
    delivered_later(&producer, &world);
    held.release().expect("releases");
    held.remove().expect("removes");
    assert_eq!(delivered(&sent).offset, Some(2));
}

/// A topic with a request in flight is not forgotten, however long that takes, while others are.
fn delivered_later(producer: &Producer, world: &World) {
    for number in 0..3 {
        let topic = format!("passing-{number}");
        world.control(Command::CreateTopic {
            topic: topic.clone(),
            partitions: Some(1),
            replicas: None,
            config: Default::default(),
        });
        assert_eq!(producer.partition_count(&topic), None);
        let deadline = Instant::now() + PATIENCE;
        while producer.partition_count(&topic).is_none() {
            assert!(Instant::now() < deadline, "{topic} stays unknown");
            std::thread::sleep(Duration::from_millis(1));
        }
        wait_for(producer, |health| health.topics == 1);
    }
}
