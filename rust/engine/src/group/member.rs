//! A member of a group under either protocol.

use super::classic::{self, GroupConfig};
use super::consumer::{self, MembershipConfig};
use super::{GroupProtocol, Input, Output, Status, TopicIds};
use crate::Now;

/// How the membership is to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// For good: [`Output::Closed`] follows.
    pub(crate) close: bool,
    /// Whether the group is told, if the member is not static.
    pub(crate) leave: bool,
}

/// A member of a consumer group: one of two machines of the same shape.
///
/// A driver owns the member and the clock. It calls [`Self::handle`] for each event, then drains [`Self::poll`] until `None`: only
/// then is the member's work of that instant complete. [`Self::wake_at`] says when the driver has to call `handle` with
/// [`Input::Tick`] if nothing else happens; it may change with each call of `handle`. Time never goes back. No call blocks, allocates a
/// thread or touches a socket.
pub enum Member {
    /// Under the classic protocol.
    Classic(Box<classic::Member>),
    /// Under KIP-848.
    Consumer(Box<consumer::Member>),
}

impl Member {
    /// A classic member without a subscription; `seed` decides its jitter.
    pub fn classic(config: GroupConfig, seed: u64) -> Self {
        Self::Classic(Box::new(classic::Member::new(config, seed)))
    }

    /// A member under KIP-848 without a subscription. Its id comes from [`consumer::member_id`]; `seed` decides its jitter.
    pub fn consumer(config: MembershipConfig, member_id: String, seed: u64) -> Self {
        Self::Consumer(Box::new(consumer::Member::new(config, member_id, seed)))
    }

    /// The protocol.
    pub fn protocol(&self) -> GroupProtocol {
        match self {
            Self::Classic(_) => GroupProtocol::Classic,
            Self::Consumer(_) => GroupProtocol::Consumer,
        }
    }

    /// Notes when the user last polled: `now` while a poll waits. It takes no time and leaves no complete work: call
    /// [`Self::handle`] right after it.
    pub fn polled(&mut self, at: Now) {
        match self {
            Self::Classic(member) => member.polled(at),
            Self::Consumer(member) => member.polled(at),
        }
    }

    /// Takes an input, at a time that never goes back. Drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Now, input: Input) {
        match self {
            Self::Classic(member) => member.handle(now, input),
            Self::Consumer(member) => member.handle(now, input),
        }
    }

    /// The next output; `None` when all are drained.
    pub fn poll(&mut self) -> Option<Output> {
        match self {
            Self::Classic(member) => member.poll(),
            Self::Consumer(member) => member.poll(),
        }
    }

    /// When [`Self::handle`] has to be called if nothing else happens.
    pub fn wake_at(&self) -> Option<Now> {
        match self {
            Self::Classic(member) => member.wake_at(),
            Self::Consumer(member) => member.wake_at(),
        }
    }

    /// How the membership is.
    pub fn status(&self) -> Status {
        match self {
            Self::Classic(member) => member.status(),
            Self::Consumer(member) => member.status(),
        }
    }

    /// The ids of the topics of the owned partitions, as far as they are known.
    pub fn topic_ids(&self) -> TopicIds {
        match self {
            Self::Classic(member) => member.topic_ids(),
            Self::Consumer(member) => member.topic_ids(),
        }
    }
}
