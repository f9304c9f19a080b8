//! The cost of a membership compared with reading assigned partitions: prints figures, asserts nothing.

use std::time::{Duration, Instant};

use monedula_broker::control::{Command, Data, Record};
use monedula_client::consumer::BatchLimits;
use monedula_client::group::{Listens, Polled};
use monedula_engine::fetch::Start;

use crate::support::{HOLDER, PATIENCE, User, World, partition, topics_of};

const PARTITIONS: i32 = 4;
const RECORDS: usize = 500_000;
/// Enough for a median on a machine with other load.
const ROUNDS: usize = 40;

/// CPU seconds of this process so far, including the broker's.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let ticks = stat.rsplit(')').next().expect("fields").split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

/// Reads everything; returns the wall-clock time and the CPU seconds.
fn seconds(user: &User) -> (f64, f64) {
    let want = BatchLimits { max_rows: 100_000, max_bytes: 64 << 20, max_wait: Duration::from_secs(1), deadline: None };
    let (mut rows, mut started, mut cpu_before) = (0, Instant::now(), 0.0);
    while rows < RECORDS * PARTITIONS as usize {
        match user.consumer.next(&want, Instant::now() + PATIENCE, HOLDER).expect("a step") {
            Polled::Batch(batch) => {
                if rows == 0 {
                    // Joining and looking up offsets are not measured.
                    (started, cpu_before) = (Instant::now(), cpu_seconds());
                }
                rows += batch.columns.record_batch.num_rows();
            }
            Polled::Callback(_) | Polled::Nothing => {}
        }
    }
    (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before)
}

fn run_as_member(world: &World) -> (f64, f64) {
    let user = world.consumer(&[("enable.auto.commit", "false"), ("heartbeat.interval.ms", "3000")]);
    user.consumer.subscribe(topics_of(&["orders"]), Listens::default()).expect("subscribes");
    let took = seconds(&user);
    user.consumer.close(PATIENCE);
    took
}

fn run_as_assigned(world: &World) -> (f64, f64) {
    let user = world.consumer(&[]);
    let all = (0..PARTITIONS).map(|index| (partition("orders", index), Start::Earliest, None)).collect();
    user.consumer.assign(all).expect("assigns");
    let took = seconds(&user);
    user.consumer.close(PATIENCE);
    took
}

#[test]
#[ignore = "a measurement: cargo test --release -p monedula-client --test groups -- --ignored --nocapture speed"]
fn speed_of_a_member_beside_that_of_assigned_partitions() {
    let world = World::new(&["orders:4"], 1);
    let record = Record { value: Some(Data(vec![b'x'; 100])), ..Record::default() };
    for index in 0..PARTITIONS {
        for _ in 0..RECORDS / 10_000 {
            let records = vec![record.clone(); 10_000];
            world.control(Command::Append { topic: "orders".into(), partition: index, records, compression: None });
        }
    }
    let (mut member, mut assigned) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Alternates the order, since the second reader finds warmer caches.
        for as_member in [round % 2 == 0, round % 2 == 1] {
            match as_member {
                true => member.push(run_as_member(&world)),
                false => assigned.push(run_as_assigned(&world)),
            }
        }
    }
    for (name, mut runs) in [("member", member), ("assigned", assigned)] {
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let records = RECORDS as f64 * f64::from(PARTITIONS);
        let cpu: f64 = runs.iter().map(|(_, cpu)| cpu).sum();
        let (best, median) = (records / runs[0].0 / 1e6, records / runs[ROUNDS / 2].0 / 1e6);
        let cpu_ns = cpu / ROUNDS as f64 / records * 1e9;
        println!(
            "{name}: best {best:.2}, median {median:.2} million records/s; {cpu_ns:.1} ns of CPU a record, broker included"
        );
    }
}
