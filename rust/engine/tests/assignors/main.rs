//! The assignors of groups, beside Java's and over whole lives of groups.

mod group;
mod turns;
