//! Several members of a share group, with their drivers and users, against the embedded broker's coordinator and leaders: a
//! simulated network, a simulated clock, and everything that can go wrong, drawn from a seed. A model of Kafka's leaders
//! runs beside the broker; after every step the rules of [`rules::Rule`] have to hold.
//!
//! `make simulate-shares SEEDS=20000` runs more seeds, with `FIRST=20000` those from there on; `make simulate-shares SEED=7`
//! runs one and prints all that happens in it, with `BUG=KeepGaps` under a planted bug.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
#[path = "../common/chance.rs"]
mod chance;
mod cluster;
mod driving;
mod judge;
mod leaders;
#[path = "../common/network.rs"]
mod network;
mod plan;
mod process;
mod rules;
#[path = "../common/seeds.rs"]
mod seeds;
mod trouble;
mod users;
mod world;

use std::sync::{Mutex, PoisonError};

use monedula_broker::planted as broker;
use plan::Plan;
use rules::{Bug, Figures, Violation};
use seeds::{on_every_core, setting};
use world::World;

/// Seeds of every run of the tests.
const SEEDS: u64 = 300;

/// Failures that are shown.
const SHOWN: usize = 30;

fn run(seed: u64, bug: Option<Bug>, tracing: bool) -> World {
    broker::plant(bug.and_then(Bug::of_leader));
    let mut world = World::new(Plan::new(seed), bug, tracing);
    world.run();
    world
}

#[test]
fn every_rule_holds_for_every_seed() {
    let (first, seeds) = (setting("FIRST").unwrap_or(0), setting("SEEDS").unwrap_or(SEEDS));
    let outcomes = Mutex::new((Figures::default(), Vec::new()));
    on_every_core(first..first + seeds, &|seed| {
        let world = run(seed, None, false);
        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.0.add(&world.figures);
        outcomes.1.extend(world.violation.map(|violation| (seed, violation)));
        false
    });
    let (figures, mut failures) = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{figures:?}");
    failures.sort_by_key(|(seed, _)| *seed);
    for (seed, Violation { rule, at, text }) in failures.iter().take(SHOWN) {
        println!("make simulate-shares SEED={seed}: {rule:?} at {:.3} s: {text}", at.as_secs_f64());
    }
    assert!(failures.is_empty(), "{} of {seeds} seeds failed", failures.len());
    let never = figures.never();
    assert!(seeds < SEEDS || never.is_empty(), "never met in {seeds} seeds: {never:?}");
}

#[test]
fn every_planted_bug_is_found_by_the_rule_that_it_breaks() {
    let mut wrong = Vec::new();
    for &(bug, rules) in Bug::ALL {
        let found = Mutex::new(None);
        on_every_core(0..10 * SEEDS, &|seed| {
            let Some(violation) = run(seed, Some(bug), false).violation else { return false };
            found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((seed, violation));
            true
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        println!("{bug:?}: {found:?}");
        if !found.as_ref().is_some_and(|(_, violation)| rules.contains(&violation.rule)) {
            wrong.push((bug, found));
        }
    }
    assert!(wrong.is_empty(), "not found, or by another rule: {wrong:?}");
}

#[test]
fn a_seed_decides_everything() {
    let outcome = |seed| {
        let world = run(seed, None, false);
        (world.steps, world.now, world.figures)
    };
    assert_eq!(outcome(3), outcome(3));
    assert_ne!(outcome(3), outcome(4));
}

#[test]
#[ignore = "prints one seed: make simulate-shares SEED=7"]
fn one_seed() {
    let seed = setting("SEED").expect("SEED says which");
    let name = std::env::var("BUG").unwrap_or_default();
    let bug = Bug::ALL.iter().map(|(bug, _)| *bug).find(|bug| format!("{bug:?}") == name);
    let violation = run(seed, bug, true).violation;
    assert!(violation.is_none(), "seed {seed}: {violation:?}");
}
