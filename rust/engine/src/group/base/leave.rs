//! The end of a membership.

use crate::group::messages::CallId;

/// The end of a membership, as the user wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// Set if the consumer is closed: [`Output::Closed`](crate::group::Output::Closed) follows.
    pub(crate) close: bool,
    /// Set if a member that is not static leaves the group with a request.
    pub(crate) leave: bool,
}

/// The end of a membership, while it lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leave {
    /// The end that the user wants; `None` while the membership goes on.
    pub(crate) exit: Option<Exit>,
    /// The request that leaves the group.
    pub(crate) in_flight: Option<CallId>,
    /// Closing is done: [`Output::Closed`](crate::group::Output::Closed) is pushed after all other outputs.
    pub(crate) closed: bool,
}
