//! A member of a group under either protocol.

use super::base::{MemberBase, Status};
use super::classic::{self, ClassicConfig};
use super::consumer::{self, ConsumerProtocolConfig};
use super::messages::{Input, Output, TopicIds, topic_ids};
use super::state::GroupProtocol;
use crate::Now;

/// A member of a consumer group: one of two machines with the same interface.
///
/// A driver owns the member and the clock. It calls [`Self::handle`] for each event, then drains [`Self::poll`] until
/// `None`: only then is the member's work of that instant complete. [`Self::wake_at`] says when the driver has to call
/// `handle` with [`Input::Tick`] if nothing else happens; it may change with each call of `handle`. Time never goes
/// back. No call blocks, starts a thread or touches a socket.
pub enum Member {
    /// Under the classic protocol.
    Classic(Box<classic::ClassicMember>),
    /// Under KIP-848.
    Consumer(Box<consumer::ConsumerMember>),
}

impl Member {
    /// A classic member without a subscription. `seed` determines its jitter.
    pub fn classic(config: ClassicConfig, seed: u64) -> Self {
        Self::Classic(Box::new(classic::ClassicMember::new(config, seed)))
    }

    /// A member under KIP-848 without a subscription. Its id comes from [`consumer::member_id`]. `seed` determines its
    /// jitter.
    pub fn consumer(config: ConsumerProtocolConfig, member_id: String, seed: u64) -> Self {
        Self::Consumer(Box::new(consumer::ConsumerMember::new(config, member_id, seed)))
    }

    /// Goes on with a classic member without a subscription, after [`Output::FallBack`]. It uses none of the ids again
    /// that this member gave to calls and tickets: an answer to one of these may still come, and is then dropped.
    pub fn fall_back(&mut self, config: ClassicConfig, seed: u64) {
        let mut member = classic::ClassicMember::new(config, seed);
        member.base.out.skip_ids(self.base().out.last_id());
        *self = Self::Classic(Box::new(member));
    }

    /// The protocol of the member.
    pub fn protocol(&self) -> GroupProtocol {
        match self {
            Self::Classic(_) => GroupProtocol::Classic,
            Self::Consumer(_) => GroupProtocol::Consumer,
        }
    }

    /// Records when the user last polled: the current time while a poll waits. Call [`Self::handle`] right after it,
    /// which does the work that follows from it.
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
            Self::Classic(member) => member.base.out.poll(),
            Self::Consumer(member) => member.base.out.poll(),
        }
    }

    /// The time to call [`Self::handle`] if nothing else happens before.
    pub fn wake_at(&self) -> Option<Now> {
        self.base().out.timers.first()
    }

    /// A snapshot of the membership.
    pub fn status(&self) -> Status {
        match self {
            Self::Classic(member) => member.status(),
            Self::Consumer(member) => member.status(),
        }
    }

    /// The topic ids of the owned partitions, as far as they are known.
    pub fn topic_ids(&self) -> TopicIds {
        let owned = &self.base().owned;
        topic_ids(owned, owned.keys())
    }

    fn base(&self) -> &MemberBase {
        match self {
            Self::Classic(member) => &member.base,
            Self::Consumer(member) => &member.base,
        }
    }
}
