//! Consumers in groups, on the embedded broker.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

/// Runs each of these tests under each `group.protocol`, which is its argument.
#[macro_export]
macro_rules! under_both_protocols {
    ($($test:ident),* $(,)?) => {
        mod classic {
            $(#[test] fn $test() { super::$test("classic"); })*
        }
        mod consumer {
            $(#[test] fn $test() { super::$test("consumer"); })*
        }
    };
}

mod by_hand;
mod leases;
mod lives;
mod rebalances;
mod rows;
mod speed;
mod support;
mod told;
mod topics;
