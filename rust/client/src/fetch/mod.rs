//! From brokers to batches: the task that fetches ([`driver`]), the commands that it takes ([`command`]), what was
//! fetched and waits to be handed out ([`buffer`]), the threads that decompress it ahead ([`inflate`]), and what a call
//! of the user's gets ([`polled`]).

pub(crate) mod buffer;
pub(crate) mod command;
pub(crate) mod driver;
pub(crate) mod inflate;
pub(crate) mod polled;
