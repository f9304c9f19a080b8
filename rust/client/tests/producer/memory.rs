//! The bound on a producer's memory, and calls that end when there is no room.

use std::time::{Duration, Instant};

use monedula_broker::Effect;
use monedula_client::producer::{Record, Refused};

use crate::support::{PATIENCE, World, delivered, failure, send};

const VALUE: &[u8] = &[7; 1000];

/// Batches are sent for want of memory only.
const LINGERING: [(&str, &str); 5] = [
    ("linger.ms", "600000"),
    ("delivery.timeout.ms", "900000"),
    ("buffer.memory", "1000000"),
    ("batch.size", "1000000"),
    ("max.request.size", "900000"),
];

fn fill(world: &World, producer: &monedula_client::producer::Producer, topic: &str) -> usize {
    let mut taken = 0;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match producer.send(&Record { topic, value: Some(VALUE), ..Record::default() }) {
            Ok(_) => taken += 1,
            Err(Refused::Full { .. }) => return taken,
            Err(Refused::Error(error)) => panic!("{error}"),
        }
    }
    panic!("never full; {:?} {}", producer.health(), world.broker.addresses().len());
}

// req: S166
#[test]
fn a_topic_that_nobody_takes_leaves_room_for_others() {
    let world = World::new(&["dead:1", "alive:1"], 1);
    let producer = world.producer(&[("buffer.memory", "2000000"), ("batch.size", "16384")]);
    delivered(&send(&producer, "dead", None, "first"));
    delivered(&send(&producer, "alive", None, "first"));
    let fault =
        world.fault_of_topic("Produce", "dead", Effect::Error { error: "NOT_LEADER_OR_FOLLOWER".into(), whole: false });
    let taken = fill(&world, &producer, "dead");
    let (used, limit) = producer.health().memory;
    assert!(taken > 1000 && used <= limit, "{taken} records, {used} of {limit} bytes");
    for number in 0..200 {
        let sent = producer.send(&Record { topic: "alive", value: Some(VALUE), ..Record::default() }).expect("room");
        assert_eq!(delivered(&sent).offset, Some(number + 1));
    }
    fault.remove().expect("removes");
    world.flush(&producer);
    assert_eq!(world.read("dead", 0, taken + 1).len(), taken + 1);
    assert_eq!(producer.health().memory.0, 0);
}

#[test]
fn a_dead_cluster_fails_records_within_their_time_and_memory_stays_bounded() {
    let world = World::new(&["events:1"], 1);
    let settings =
        [("buffer.memory", "1000000"), ("batch.size", "16384"), ("delivery.timeout.ms", "700"), ("linger.ms", "0")];
    let producer = world.producer(&settings);
    delivered(&send(&producer, "events", None, "first"));
    let fault = world.fault(&["Produce"], Effect::Hold, None);
    let last = send(&producer, "events", None, "last");
    fill(&world, &producer, "events");
    assert!(!producer.wait_for_room(900_000, Instant::now(), None).expect("open"));
    let error = failure(&last);
    assert!(error.contains("delivery.timeout.ms=700"), "{error}");
    assert!(producer.wait_for_room(900_000, Instant::now() + PATIENCE, None).expect("open"));
    fault.remove().expect("removes");
}

#[test]
fn closing_ends_at_its_deadline_and_fails_what_is_left() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[]);
    delivered(&send(&producer, "events", None, "first"));
    // Metadata too: where closing took long, the topic had been asked for five times and was given up as unknown.
    let fault = world.fault(&["Produce", "Metadata"], Effect::Hold, None);
    let (sent, parked) = (send(&producer, "events", None, "held"), send(&producer, "nowhere", None, "parked"));
    producer.close(Duration::from_millis(100));
    assert!(failure(&sent).contains("closed"));
    assert!(failure(&parked).contains("closed"));
    let refused = producer.send(&Record { topic: "events", ..Record::default() });
    assert!(matches!(refused, Err(Refused::Error(error)) if error.to_string() == "the producer is closed"));
    fault.remove().expect("removes");
}

#[test]
fn a_dropped_producer_delivers_what_it_has() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[("linger.ms", "60000")]);
    let sent = send(&producer, "events", None, "lingers");
    drop(producer);
    assert_eq!(delivered(&sent).offset, Some(0));
}

#[test]
fn memory_that_runs_out_sends_what_lingers() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[
        ("linger.ms", "60000"),
        ("buffer.memory", "100000"),
        ("batch.size", "1000000"),
        ("max.request.size", "90000"),
    ]);
    let first = send(&producer, "events", None, "first");
    fill(&world, &producer, "events");
    // More than fits: it waits for room, which only sending the lingering batches frees.
    let value = "x".repeat(1000);
    (0..200).for_each(|_| drop(send(&producer, "events", None, &value)));
    delivered(&first);
}

/// Callers wait in slices of their own. Nobody had what others had opened meanwhile sent, and it lingered while they waited.
#[test]
fn a_wait_in_slices_sends_what_lingers() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&LINGERING);
    send(&producer, "events", None, "known");
    world.flush(&producer);
    let first = send(&producer, "events", None, &"x".repeat(600_000));
    let deadline = Instant::now() + PATIENCE;
    while !producer.wait_for_room(600_000, Instant::now() + Duration::from_millis(10), None).expect("open") {
        assert!(Instant::now() < deadline, "nobody sends what lingers");
    }
    delivered(&first);
}

/// Memory that ran out again during the flush that made room was forgotten when that flush ended.
#[test]
fn memory_that_runs_out_again_sends_what_lingers_again() {
    let world = World::new(&["events:2"], 1);
    let producer = world.producer(&LINGERING);
    send(&producer, "events", Some("key"), "known");
    world.flush(&producer);
    let large = "x".repeat(600_000);
    let send_to = |partition, value: &str| {
        let value = Some(value.as_bytes());
        producer.send(&Record { topic: "events", partition: Some(partition), value, ..Record::default() })
    };
    let held = world.fault(&["Produce"], Effect::Hold, None);
    let first = send_to(0, &large).expect("room");
    assert!(matches!(send_to(0, &large), Err(Refused::Full { .. })));
    assert!(held.wait(1, PATIENCE).expect("is set"), "it is not sent");
    let second = send_to(1, "lingers").expect("room");
    assert!(matches!(send_to(0, &large), Err(Refused::Full { .. })));
    held.remove().expect("removes");
    delivered(&first);
    delivered(&second);
}

/// A batch's first record took a little memory, was refused the rest and returned the little. That looked
/// like free room, so `send` tried again without end, past every timeout and at full load of a core.
#[test]
fn a_record_that_is_refused_is_no_room_for_another_attempt() {
    let world = World::new(&["events:1", "others:1"], 1);
    let settings = [("buffer.memory", "1000000"), ("max.request.size", "1000000"), ("linger.ms", "0")];
    let producer = world.producer(&settings);
    delivered(&send(&producer, "events", None, "first"));
    delivered(&send(&producer, "others", None, "first"));
    let _fault = world.fault(&["Produce"], Effect::Hold, None);
    fill(&world, &producer, "events");
    let large = vec![7; 300_000];
    let record = Record { topic: "events", value: Some(&large), ..Record::default() };
    let Err(Refused::Full { needed }) = producer.send(&record) else { panic!("there is no room") };
    let mut attempts = 0;
    let until = Instant::now() + Duration::from_millis(500);
    while producer.wait_for_room(needed, until, None).expect("open") {
        attempts += 1;
        assert!(matches!(producer.send(&record), Err(Refused::Full { .. })));
    }
    assert!(Instant::now() >= until);
    // It tries now and then, since a topic's share of the memory changes with what others return.
    assert!(attempts <= 50, "{attempts} attempts");
}

#[test]
fn a_record_that_takes_almost_all_of_the_memory_is_sent() {
    for topic in ["known", "unknown"] {
        let world = World::new(&["known:1", "unknown:1"], 1);
        let producer = world.producer(&[("buffer.memory", "1000000"), ("max.request.size", "1000000")]);
        if topic == "known" {
            delivered(&send(&producer, topic, None, "first"));
            world.flush(&producer);
        }
        let large = vec![7; 950_000];
        let sent = producer.send(&Record { topic, value: Some(&large), ..Record::default() }).expect("memory is free");
        delivered(&sent);
    }
}
