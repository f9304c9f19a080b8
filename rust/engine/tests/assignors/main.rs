//! The assignors: compared with Java's, and over many rebalances of a group.

mod deferred;
mod golden;
mod group;
mod leading;
mod moves;
mod newcomers;
mod properties;
mod protocol;
mod rounds;
mod schedule;
mod score;
mod stickiness;
mod turns;
