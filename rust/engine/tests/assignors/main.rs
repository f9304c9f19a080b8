//! The assignors of groups, beside Java's and over whole lives of groups.

mod golden;
mod group;
mod properties;
mod protocol;
mod rounds;
mod score;
mod stickiness;
mod turns;
