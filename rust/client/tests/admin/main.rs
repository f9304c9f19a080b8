//! Administration of an embedded broker.

mod bounds;
mod items;
mod moves;
mod routing;
mod support;
