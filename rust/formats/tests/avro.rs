//! Avro: schemas, the resolution of writers' schemas to readers', bad values, and the cost of hostile ones.

#[path = "../../protocol/tests/support/allocations.rs"]
mod allocations;
#[path = "avro/bad_rows.rs"]
mod bad_rows;
#[path = "avro/beside_arrow.rs"]
mod beside_arrow;
#[path = "avro/frames.rs"]
mod frames;
#[path = "avro/hostile.rs"]
mod hostile;
#[path = "avro/resolution.rs"]
mod resolution;
#[path = "avro/schemas.rs"]
mod schemas;
#[path = "avro/support.rs"]
mod support;
