//! The machine of a membership: that of the classic protocol or that of KIP-848, never both at once. What both take in the same
//! words goes through here; the rest goes to the one that it is about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use monedula_engine::assign::Assignor;
use monedula_engine::group::classic::{self, CommitOffset, Ticket, TopicIds};
use monedula_engine::group::consumer;
use monedula_engine::{Now, TopicPartition};

use super::status::Status;
use crate::config::{ClientConfig, GroupProtocol};

/// A membership without I/O.
pub(super) enum Machine {
    Classic(Box<classic::Member>),
    Consumer(Box<consumer::Member>),
}

/// Where a member stands, in the words of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Under the classic protocol.
    Classic(classic::State),
    /// Under that of KIP-848.
    Consumer(consumer::State),
}

/// What a machine is told.
pub(super) enum Input {
    Tick,
    Settled {
        ticket: Ticket,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
    },
    CalledBack {
        ticket: Ticket,
    },
    Commit {
        ticket: Ticket,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        deadline: Now,
    },
    Polled {
        at: Now,
    },
    Unsubscribe,
    Close {
        deadline: Now,
    },
    /// For the classic machine; what was meant for one that is no more is dropped.
    Classic(classic::Input),
    /// For that of KIP-848, likewise.
    Consumer(consumer::Input),
}

/// What a machine wants done.
pub(super) enum Output {
    Classic(classic::Output),
    Consumer(consumer::Output),
}

impl Machine {
    pub(super) fn new(config: &ClientConfig, assignors: Vec<Arc<dyn Assignor>>, seed: u64) -> Self {
        match config.group_protocol {
            GroupProtocol::Classic => Self::classic(config, assignors, seed),
            GroupProtocol::Consumer | GroupProtocol::Auto => {
                let member_id = consumer::member_id(random(seed));
                Self::Consumer(Box::new(consumer::Member::new(config.consumer_membership(), member_id, seed)))
            }
        }
    }

    pub(super) fn classic(config: &ClientConfig, assignors: Vec<Arc<dyn Assignor>>, seed: u64) -> Self {
        Self::Classic(Box::new(classic::Member::new(config.membership(assignors), seed)))
    }

    pub(super) fn handle(&mut self, now: Now, input: Input) {
        match self {
            Self::Classic(member) => {
                if let Some(input) = input.for_classic() {
                    member.handle(now, input);
                }
            }
            Self::Consumer(member) => {
                if let Some(input) = input.for_consumer() {
                    member.handle(now, input);
                }
            }
        }
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        match self {
            Self::Classic(member) => member.poll().map(Output::Classic),
            Self::Consumer(member) => member.poll().map(Output::Consumer),
        }
    }

    pub(super) fn wake_at(&self) -> Option<Now> {
        match self {
            Self::Classic(member) => member.wake_at(),
            Self::Consumer(member) => member.wake_at(),
        }
    }

    /// The ids of the topics of what is owned, as far as they are known.
    pub(super) fn topic_ids(&self) -> TopicIds {
        match self {
            Self::Classic(member) => member.topic_ids(),
            Self::Consumer(member) => member.topic_ids(),
        }
    }

    pub(super) fn status(&self) -> Status {
        match self {
            Self::Classic(member) => Status::Classic(Box::new(member.status())),
            Self::Consumer(member) => Status::Consumer(Box::new(member.status())),
        }
    }
}

impl State {
    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic(state) => state.name(),
            Self::Consumer(state) => state.name(),
        }
    }

    pub(super) fn is_unsubscribed(self) -> bool {
        matches!(self, Self::Classic(classic::State::Unsubscribed) | Self::Consumer(consumer::State::Unsubscribed))
    }

    pub(super) fn is_stale(self) -> bool {
        matches!(self, Self::Classic(classic::State::Stale) | Self::Consumer(consumer::State::Stale))
    }
}

impl Input {
    fn for_classic(self) -> Option<classic::Input> {
        Some(match self {
            Self::Tick => classic::Input::Tick,
            Self::Settled { ticket, offsets } => classic::Input::Settled { ticket, offsets },
            Self::CalledBack { ticket } => classic::Input::CalledBack { ticket },
            Self::Commit { ticket, offsets, deadline } => classic::Input::Commit { ticket, offsets, deadline },
            Self::Polled { at } => classic::Input::Polled { at },
            Self::Unsubscribe => classic::Input::Unsubscribe,
            Self::Close { deadline } => classic::Input::Close { deadline, leave: true },
            Self::Classic(input) => input,
            Self::Consumer(_) => return None,
        })
    }

    fn for_consumer(self) -> Option<consumer::Input> {
        use consumer::Input;
        Some(match self {
            Self::Tick => Input::Tick,
            Self::Settled { ticket, offsets } => Input::Settled { ticket, offsets },
            Self::CalledBack { ticket } => Input::CalledBack { ticket },
            Self::Commit { ticket, offsets, deadline } => Input::Commit { ticket, offsets, deadline },
            Self::Polled { at } => Input::Polled { at },
            Self::Unsubscribe => Input::Unsubscribe,
            Self::Close { deadline } => Input::Close { deadline, leave: true },
            Self::Consumer(input) => input,
            Self::Classic(_) => return None,
        })
    }
}

/// For the id of a member, which must be no other's. Hash maps are seeded by the system, but a forked process would go on with
/// its parent's seeds: so its own number and the time are in it as well.
fn random(seed: u64) -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let half =
        |half: u8| RandomState::new().hash_one((seed, std::process::id(), SystemTime::now(), half)).to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&half(0));
    bytes[8..].copy_from_slice(&half(1));
    bytes
}
