//! Records reach the log exactly once and in order.

use std::sync::{Arc, Mutex};

use monedula_broker::Effect;
use monedula_client::error::ClientError;
use monedula_client::producer::{Record, Refused};

use crate::support::{World, delivered, failure, send};

#[test]
fn a_record_is_acknowledged_with_its_offset() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[]);
    let sent: Vec<_> = (0..3).map(|number| send(&producer, "events", None, &format!("v{number}"))).collect();
    let offsets: Vec<_> = sent.iter().map(|sent| delivered(sent).offset).collect();
    assert_eq!(offsets, [Some(0), Some(1), Some(2)]);
    let rows = world.read("events", 0, 3);
    assert_eq!(rows[2], (None, Some("v2".to_owned())));
}

#[test]
fn every_codec_is_read_back() {
    let world = World::new(&["events:2"], 1);
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("of-{codec}");
        world.control(monedula_broker::control::Command::CreateTopic {
            topic: topic.clone(),
            partitions: Some(1),
            replicas: None,
            config: Default::default(),
        });
        let producer = world.producer(&[("compression.type", codec), ("batch.size", "4096")]);
        let value = "x".repeat(50);
        let sent: Vec<_> =
            (0..1000).map(|number| send(&producer, &topic, Some("k"), &format!("{value}{number}"))).collect();
        for (number, sent) in sent.iter().enumerate() {
            assert_eq!(delivered(sent).offset, Some(number as i64));
        }
        let rows = world.read(&topic, 0, 1000);
        assert!(rows.iter().enumerate().all(|(number, row)| row.1 == Some(format!("{value}{number}"))), "{codec}");
    }
}

#[test]
fn what_becomes_of_a_partitions_records_is_told_in_the_order_of_their_sending() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[("batch.size", "1000"), ("linger.ms", "0")]);
    delivered(&send(&producer, "events", None, "first"));
    let held = world.fault(&["Produce"], Effect::Hold, None);
    let told = Arc::new(Mutex::new(Vec::new()));
    for number in 0..5000 {
        let told = told.clone();
        let tell = move || told.lock().expect("whole").push(number);
        send(&producer, "events", None, &number.to_string()).on_done(tell);
    }
    held.release().expect("releases");
    held.remove().expect("removes");
    world.flush(&producer);
    assert_eq!(*told.lock().expect("whole"), (0..5000).collect::<Vec<_>>());
}

// req: S080
#[test]
fn the_first_send_to_a_new_topic_blocks_neither_the_caller_nor_other_topics() {
    let world = World::new(&["known:1"], 1);
    let producer = world.producer(&[("retry.backoff.ms", "100")]);
    delivered(&send(&producer, "known", None, "first"));
    let parked: Vec<_> = (0..5).map(|number| send(&producer, "late", None, &number.to_string())).collect();
    assert!(parked.iter().all(|sent| sent.try_outcome().is_none()));
    delivered(&send(&producer, "known", None, "second"));
    world.control(monedula_broker::control::Command::CreateTopic {
        topic: "late".into(),
        partitions: Some(1),
        replicas: None,
        config: Default::default(),
    });
    let offsets: Vec<_> = parked.iter().map(|sent| delivered(sent).offset).collect();
    assert_eq!(offsets, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
}

// req: S093
#[test]
fn a_topic_that_does_not_exist_is_named_after_the_time_of_propagation() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[]);
    let error = failure(&send(&producer, "evnets", None, "v"));
    assert!(error.contains("the topic evnets does not exist ("), "{error}");
    let refused = producer.send(&Record { topic: "no/topic", ..Record::default() });
    assert!(matches!(refused, Err(Refused::Error(ClientError::Argument(message))) if message.contains("no/topic")));
}

#[test]
fn a_record_beyond_the_limit_is_refused_at_once() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[("max.request.size", "10000")]);
    let refused = producer.send(&Record { topic: "events", value: Some(&[0; 10_000]), ..Record::default() });
    assert!(matches!(refused, Err(Refused::Error(error)) if error.to_string().contains("max.request.size (10000)")));
}

#[test]
fn lost_answers_and_requests_neither_lose_nor_duplicate() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[("batch.size", "1000"), ("linger.ms", "0")]);
    delivered(&send(&producer, "events", None, "0"));
    let mut sent = Vec::new();
    for round in 0..4 {
        let what = if round % 2 == 0 {
            Effect::Drop
        } else {
            Effect::Error { error: "NOT_LEADER_OR_FOLLOWER".into(), whole: false }
        };
        let fault = world.fault(&["Produce"], what, Some(1));
        sent.extend((0..200).map(|number| send(&producer, "events", None, &format!("{round}-{number}"))));
        world.flush(&producer);
        fault.remove().expect("removes");
    }
    let offsets: Vec<_> = sent.iter().map(|sent| delivered(sent).offset.expect("an offset")).collect();
    assert_eq!(offsets, (1..=800).collect::<Vec<i64>>());
    assert_eq!(world.read("events", 0, 801).len(), 801);
}
