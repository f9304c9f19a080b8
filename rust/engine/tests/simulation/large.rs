//! One large group: a thousand members and five thousand partitions, and what a rebalance costs of a processor's time. All
//! members and the coordinator share one thread; what the simulation itself takes is left out.

use std::mem::take;
use std::time::{Duration, Instant};

use monedula_engine::Now;

use crate::machine::is_stable;
use crate::plan::{Disruption, Plan};
use crate::world::World;

const MEMBERS: usize = 1000;
const TOPICS: usize = 5;
const PARTITIONS: usize = 1000;

/// Adds to `sum` what `work` takes of the processor's time.
#[allow(clippy::disallowed_methods, reason = "it is measured, and decides nothing")]
pub(crate) fn measured<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    *sum += begun.elapsed();
    done
}

#[test]
#[ignore = "prints figures: cargo test --release -p monedula-engine --test simulation -- --ignored --nocapture a_large_group"]
fn a_large_group_rebalances_in_time() {
    let mut plan = Plan::quiet(MEMBERS, TOPICS, PARTITIONS);
    // The last member starts later; after that, another one leaves.
    let (joins, leaves) = (Now::from_secs(30), Now::from_secs(60));
    for slot in 0..MEMBERS - 1 {
        plan.disruptions.push((Now::from_millis(slot as u64 / 2), Disruption::Start(slot)));
    }
    plan.disruptions.push((joins, Disruption::Start(MEMBERS - 1)));
    plan.disruptions.push((leaves, Disruption::Close(0, Duration::from_secs(1000))));
    let mut world = World::new(plan, None, false);
    for (what, from, until) in [
        ("the first members", Now::ZERO, joins),
        ("one member more", joins, leaves),
        ("one member less", leaves, leaves + Duration::from_secs(30)),
    ] {
        world.run_until(until - Duration::from_millis(1));
        assert!(world.checks.violation.is_none(), "{:?}", world.checks.violation);
        let owned: usize = world.processes.values().map(|process| process.member.status().owned.len()).sum();
        assert_eq!(owned, TOPICS * PARTITIONS, "{what}");
        assert!(world.processes.values().all(|process| is_stable(process.member.status().state)));
        let (members, coordinator) = (take(&mut world.members_busy), take(&mut world.coordinator_busy));
        let assigning = take(&mut world.assigning);
        println!(
            "{what}: {:.3} s of a processor: members {members:.3?}, coordinator {coordinator:.3?}, assigning {assigning:.3?}, \
             with the heartbeats of {:?}",
            (members + coordinator + assigning).as_secs_f64(),
            until - from
        );
    }
}
