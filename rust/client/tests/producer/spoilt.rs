//! Batches that a broker refuses because they are too large or because of invalid records.

use monedula_broker::Effect;
use monedula_broker::control::Command;

use crate::support::{World, delivered, failure, send};

fn create(world: &World, topic: &str, config: &[(&str, &str)]) {
    let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    world.control(Command::CreateTopic { topic: topic.into(), partitions: Some(1), replicas: None, config });
}

#[test]
fn a_batch_that_is_too_large_is_divided_and_each_record_gets_its_own_offset() {
    let world = World::new(&["events:1"], 1);
    create(&world, "small", &[("max.message.bytes", "2000")]);
    for codec in ["none", "zstd"] {
        let producer = world.producer(&[("compression.type", codec), ("linger.ms", "50")]);
        let value = |number: usize| format!("{codec}{number}{}", "abcdefgh".repeat(number % 37));
        let sent: Vec<_> = (0..500).map(|number| send(&producer, "small", None, &value(number))).collect();
        let first = delivered(&sent[0]).offset.expect("an offset");
        for (number, sent) in sent.iter().enumerate() {
            assert_eq!(delivered(sent).offset, Some(first + number as i64));
        }
        let rows = world.read("small", 0, first as usize + 500);
        let tail = rows[first as usize..].iter().enumerate();
        assert!(tail.into_iter().all(|(number, row)| row.1 == Some(value(number))), "{codec}");
        let huge = send(&producer, "small", None, &random_text(5000));
        assert!(failure(&huge).contains("MESSAGE_TOO_LARGE"), "{}", failure(&huge));
    }
}

/// Text that no codec compresses to less than half.
fn random_text(bytes: usize) -> String {
    let mut state = 1u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 33) as u8 % 90)
    };
    (0..bytes).map(|_| byte()).collect()
}

// A compacted topic requires keys; KIP-467 reports the records without one.
#[test]
fn records_that_spoil_a_batch_have_their_own_reason_and_the_others_are_told_so() {
    let world = World::new(&["events:1"], 1);
    create(&world, "compacted", &[("cleanup.policy", "compact")]);
    let producer = world.producer(&[("linger.ms", "50"), ("partitioner", "murmur2")]);
    let good = send(&producer, "compacted", Some("k"), "v");
    let spoiler = send(&producer, "compacted", None, "v");
    let (good, spoiler) = (failure(&good), failure(&spoiler));
    assert!(good.contains("not because of this record, but of 1 others"), "{good}");
    assert!(spoiler.contains("INVALID_RECORD") && !spoiler.contains("not because"), "{spoiler}");
    delivered(&send(&producer, "compacted", Some("k"), "again"));
}

#[test]
fn an_error_that_no_repetition_mends_fails_the_batch_and_the_next_one_goes() {
    let world = World::new(&["events:1"], 1);
    let producer = world.producer(&[]);
    let fault =
        world.fault(&["Produce"], Effect::Error { error: "TOPIC_AUTHORIZATION_FAILED".into(), whole: false }, Some(1));
    let error = failure(&send(&producer, "events", None, "v"));
    assert!(error.contains("TOPIC_AUTHORIZATION_FAILED"), "{error}");
    fault.remove().expect("removes");
    delivered(&send(&producer, "events", None, "v"));
}
