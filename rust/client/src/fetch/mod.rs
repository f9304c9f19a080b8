//! From brokers to batches: the task that fetches ([`driver`]), what it is told ([`command`]), what was fetched and waits to be
//! handed out ([`buffer`]), the bytes that may wait ([`budget`]), and the threads that decompress them ahead ([`inflate`]).

pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod command;
pub(crate) mod driver;
pub(crate) mod inflate;
