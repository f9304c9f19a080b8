//! The end of a membership.

use super::words::CallId;

/// How the membership ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// Whether the consumer is closed: [`Output::Closed`](super::Output::Closed) follows.
    pub(crate) close: bool,
    /// Whether a member that is not static leaves the group with a request.
    pub(crate) leave: bool,
}

/// The end of a membership, while it lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leave {
    /// How the user ends the membership; `None` while it goes on.
    pub(crate) exit: Option<Exit>,
    /// The request that leaves the group.
    pub(crate) in_flight: Option<CallId>,
    /// Closing is done: [`Output::Closed`](super::Output::Closed) is pushed after all other outputs.
    pub(crate) closed: bool,
}
