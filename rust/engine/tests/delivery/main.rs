//! Simulates the delivery of batches to the embedded broker, with a virtual network and clock, and faults drawn from a
//! seed. Each acknowledged record is in the log, once and in order; a transaction is complete or absent; with acks=0,
//! each batch only has an outcome, and the records of a connection are in order.
//!
//! `make simulate-delivery SEEDS=20000` runs more seeds, with `FIRST=20000` those from there on; `make simulate-delivery SEED=7` runs one and prints all that happens in it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod broker;
mod driver;
mod judge;
mod network;
mod requests;
#[path = "../common/seeds.rs"]
mod seeds;
mod sim;
mod trouble;
mod user;
mod waiting;

use judge::{Bug, Figures, Rule};
use seeds::setting;
use sim::Sim;

/// Number of seeds of every run of the tests.
const SEEDS: u64 = 500;

/// Number of seeds of the nightly run, which has to include rare events too.
const MANY: u64 = 20_000;

fn run(seed: u64, bug: Option<Bug>, tracing: bool) -> Result<Figures, (Rule, String)> {
    let mut sim = Sim::new(seed, bug, tracing);
    sim.run();
    sim.judge()
}

#[test]
fn every_acknowledged_record_is_there_once_and_in_order() {
    let (first, seeds) = (setting("FIRST").unwrap_or(0), setting("SEEDS").unwrap_or(SEEDS));
    let mut met = Figures::default();
    let mut failures = Vec::new();
    for seed in first..first + seeds {
        match run(seed, None, false) {
            Ok(figures) => met.add(&figures),
            Err((rule, text)) => failures.push(format!("make simulate-delivery SEED={seed}: {rule:?}: {text}")),
        }
    }
    println!("{met:?}");
    assert!(
        failures.is_empty(),
        "{} of {seeds} seeds failed:\n{}",
        failures.len(),
        failures[..failures.len().min(10)].join("\n")
    );
    assert!(seeds < SEEDS || met.all_met(seeds >= MANY), "never met: {met:?}");
    assert!(seeds < SEEDS || met.within_bounds(usize::try_from(seeds).unwrap()), "too often: {met:?}");
}

#[test]
fn every_planted_bug_is_found_by_the_rule_that_it_breaks() {
    for &(bug, rules) in Bug::ALL {
        // Some faults need rarer coincidences than others.
        let found = (0..4 * SEEDS).find_map(|seed| run(seed, Some(bug), false).err());
        let (rule, text) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        assert!(rules.contains(&rule), "{bug:?} breaks {rule:?}: {text}");
    }
}

#[test]
fn a_seed_decides_everything() {
    assert_eq!(run(3, None, false), run(3, None, false));
    assert_ne!(run(3, None, false), run(4, None, false));
}

#[test]
#[ignore = "prints one seed: make simulate-delivery SEED=7"]
fn one_seed() {
    let seed = setting("SEED").expect("SEED says which");
    let outcome = run(seed, None, true);
    assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
}
