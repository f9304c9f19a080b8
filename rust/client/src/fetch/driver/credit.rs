//! The share of the byte budget that a fetch may take.
//!
//! Fetches together stay below a ceiling of five eighths of the budget: the rest is for decompressing ahead, and for
//! answers that are larger than asked (KIP-74). A little of the ceiling is kept for each broker that is caught up.
//! Brokers with a backlog divide half of what that leaves, so that none waits for what an idle long poll of another
//! holds; the other half is for fetched bytes that are not read yet.

use monedula_engine::fetch::Demand;

use crate::budget::{Budget, Charge};
use crate::config::ClientConfig;

/// All that is kept for brokers that are caught up, at most, as a part of the ceiling.
const CAUGHT_UP_PART: usize = 8;
/// The most that a fetch from a broker that is caught up takes.
const CAUGHT_UP_MAX_BYTES: usize = 1 << 20;
/// The least that a fetch takes, however many brokers there are. Brokers send one whole batch nevertheless.
const LEAST_BYTES: usize = 1 << 10;

/// The shares of the budget at one time.
#[derive(Debug)]
pub(super) struct Credit {
    ceiling: usize,
    behind_bytes: usize,
    caught_up_bytes: usize,
    caught_up_unasked: usize,
    /// True if a broker that is caught up, or behind, was refused: then no other such broker gets credit before it.
    refused: [bool; 2],
}

impl Credit {
    pub(super) fn new(limit: usize, config: &ClientConfig, demand: Demand) -> Self {
        let Demand { behind, caught_up, caught_up_unasked } = demand;
        let ceiling = limit / 8 * 5;
        let nodes = (behind + caught_up).max(1);
        let most = config.fetch_max_bytes;
        // Enough to fill `fetch.min.bytes`, where that leaves something for others.
        let least = (config.fetch_min_bytes.unsigned_abs() as usize).min(ceiling / 2 / nodes);
        let caught_up_bytes = (ceiling / CAUGHT_UP_PART / nodes).min(CAUGHT_UP_MAX_BYTES).max(least);
        let kept = caught_up_bytes * caught_up;
        let behind_bytes = (ceiling.saturating_sub(kept) / 2 / behind.max(1)).max(least);
        let bounded = |bytes: usize| bytes.max(LEAST_BYTES).min(most);
        Self {
            ceiling,
            behind_bytes: bounded(behind_bytes),
            caught_up_bytes: bounded(caught_up_bytes),
            caught_up_unasked,
            refused: [false; 2],
        }
    }

    /// Budget for a fetch from one broker, if there is enough. Called for each ready broker in turn.
    pub(super) fn take(&mut self, budget: &Budget, is_behind: bool) -> Option<Charge> {
        if self.refused[usize::from(is_behind)] {
            return None;
        }
        let (bytes, kept) = match is_behind {
            true => (self.behind_bytes, self.caught_up_bytes * self.caught_up_unasked),
            false => (self.caught_up_bytes, 0),
        };
        let charge = budget.try_take_below(bytes, self.ceiling.saturating_sub(kept));
        self.refused[usize::from(is_behind)] = charge.is_none();
        if !is_behind && charge.is_some() {
            self.caught_up_unasked = self.caught_up_unasked.saturating_sub(1);
        }
        charge
    }

    /// True if any broker has to wait.
    pub(super) fn is_short(&self) -> bool {
        self.refused.contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[(&str, &str)]) -> ClientConfig {
        let servers = [("bootstrap.servers", "localhost:1")];
        ClientConfig::parse(servers.into_iter().chain(settings.iter().copied())).expect("settings")
    }

    fn demand(behind: usize, caught_up: usize) -> Demand {
        Demand { behind, caught_up, caught_up_unasked: caught_up }
    }

    /// The charges of one fetch to each broker.
    fn all(budget: &Budget, config: &ClientConfig, behind: usize, caught_up: usize) -> Vec<Option<Charge>> {
        let mut credit = Credit::new(budget.limit(), config, demand(behind, caught_up));
        let turns = std::iter::repeat_n(true, behind).chain(std::iter::repeat_n(false, caught_up));
        turns.map(|is_behind| credit.take(budget, is_behind)).collect()
    }

    #[test]
    fn there_is_enough_for_a_fetch_to_every_broker_at_once() {
        for limit in [1 << 20, 4 << 20, 64 << 20, 1 << 30] {
            for min_bytes in ["1", "100000"] {
                let config = config(&[("fetch.min.bytes", min_bytes), ("queued.max.bytes", &limit.to_string())]);
                for nodes in 1..=50 {
                    for behind in 0..=nodes {
                        let budget = Budget::new(limit);
                        let charges = all(&budget, &config, behind, nodes - behind);
                        assert!(charges.iter().all(Option::is_some), "{limit} bytes, {behind} of {nodes} behind");
                        // The rest is for what is brought and not read yet.
                        let most = limit / 8 * 5 / 4 * 3;
                        assert!(budget.used() <= most, "{} of {limit} for {behind}/{nodes}", budget.used());
                    }
                }
            }
        }
    }

    #[test]
    fn one_to_three_brokers_with_a_backlog_take_what_a_fetch_may_hold_or_a_third_of_half_the_ceiling() {
        let config = config(&[]);
        let budget = Budget::new(config.queued_max_bytes);
        let bytes = |behind, caught_up| {
            let charges = all(&budget, &config, behind, caught_up);
            charges.first().and_then(|charge| charge.as_ref().map(Charge::bytes))
        };
        assert_eq!([bytes(1, 0), bytes(2, 0), bytes(3, 0)], [Some(8 << 20), Some(8 << 20), Some((40 << 20) / 6)]);
        assert_eq!(bytes(1, 29), Some(8 << 20), "what others do not need is for the one that does");
        assert_eq!([bytes(0, 1), bytes(0, 40)], [Some(1 << 20), Some(128 << 10)]);
    }

    #[test]
    fn a_backlog_leaves_room_for_brokers_that_are_caught_up() {
        let config = config(&[]);
        let budget = Budget::new(config.queued_max_bytes);
        let mut held = Vec::new();
        // One broker brings more and more that nobody reads.
        while let Some(charge) = Credit::new(budget.limit(), &config, demand(1, 20)).take(&budget, true) {
            held.push(charge);
        }
        assert!(held.len() > 3);
        let mut credit = Credit::new(budget.limit(), &config, demand(1, 20));
        let charges: Vec<_> = (0..20).map(|_| credit.take(&budget, false)).collect();
        assert!(charges.iter().all(Option::is_some));
    }

    #[test]
    fn who_is_refused_is_not_overtaken() {
        let config = config(&[]);
        let budget = Budget::new(config.queued_max_bytes);
        let mut credit = Credit::new(budget.limit(), &config, demand(5, 0));
        let all = budget.try_take(config.queued_max_bytes).expect("it is empty");
        assert!(credit.take(&budget, true).is_none() && credit.is_short());
        drop(all);
        assert!(credit.take(&budget, true).is_none(), "the next one has its turn behind the one that was refused");
    }
}
