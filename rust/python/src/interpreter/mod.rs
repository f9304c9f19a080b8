//! The interpreter's threads, event loops, greenlets and signal handlers, as the core meets them.

pub(crate) mod attaching;
pub(crate) mod cancellation;
pub(crate) mod deferred_error;
pub(crate) mod greenlets;
pub(crate) mod loop_waker;
pub(crate) mod thread_exit;
pub(crate) mod thread_ids;
