//! The assignors of groups, beside Java's and over whole lives of groups.

mod deferred;
mod golden;
mod group;
mod leading;
mod newcomers;
mod properties;
mod protocol;
mod rounds;
mod schedule;
mod score;
mod stickiness;
mod turns;
