//! A member of either protocol as a process drives it. What both say in the same words goes by the classic machine's types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_engine::group::classic::{
    self as classic, CallError, CallId, CommitOffset, Effect, GroupEvent, Target, Ticket,
};
use monedula_engine::group::consumer::{self as consumer, MembershipError, Subscription, TopicInfo};
use monedula_engine::{Now, TopicPartition};

use crate::messages::{Answer, Call};

/// `group.protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Classic,
    Consumer,
}

/// How a user names topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// One by one.
    Names,
    /// By a pattern that the client matches.
    Matched,
    /// By a pattern that the broker matches, where it can.
    Regex,
}

/// The machine of one of the protocols.
pub(crate) enum Machine {
    Classic(Box<classic::Member>),
    Consumer(Box<consumer::Member>),
}

/// Where a machine stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Classic(classic::State),
    Consumer(consumer::State),
}

impl State {
    pub(crate) fn first(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Classic => Self::Classic(classic::State::Unsubscribed),
            Protocol::Consumer => Self::Consumer(consumer::State::Unsubscribed),
        }
    }

    pub(crate) fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Classic(from), Self::Classic(to)) => from.successors().contains(&to),
            (Self::Consumer(from), Self::Consumer(to)) => from.successors().contains(&to),
            _ => false,
        }
    }

    pub(crate) fn is_stable(self) -> bool {
        matches!(self, Self::Classic(classic::State::Stable) | Self::Consumer(consumer::State::Stable))
    }

    /// On the way from one assignment to the next.
    pub(crate) fn is_rebalancing(self) -> bool {
        matches!(
            self,
            Self::Classic(classic::State::PreparingRebalance | classic::State::CompletingRebalance)
                | Self::Consumer(consumer::State::Reconciling | consumer::State::Acknowledging)
        )
    }

    pub(crate) fn may_revoke(self) -> bool {
        matches!(self, Self::Classic(classic::State::Revoking) | Self::Consumer(consumer::State::Reconciling))
    }
}

/// How a membership is.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) state: State,
    pub(crate) member_id: String,
    /// The generation, or the epoch; -1 outside of the group.
    pub(crate) generation: i32,
    pub(crate) owned: BTreeSet<TopicPartition>,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    Tick,
    /// What is subscribed to, and how.
    Subscribe(BTreeSet<Arc<str>>, Naming),
    Topics(BTreeMap<Arc<str>, TopicInfo>),
    Answer {
        id: CallId,
        outcome: Result<Answer, CallError>,
    },
    Assigned {
        ticket: Ticket,
        outcome: Result<classic::Assignments, monedula_engine::assign::AssignError>,
    },
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
    Rejoin {
        at: Now,
        reason: String,
    },
    Unsubscribe,
    Close {
        deadline: Now,
        leave: bool,
    },
}

#[derive(Debug)]
pub(crate) enum Output {
    Call {
        id: CallId,
        target: Target,
        call: Call,
    },
    Raise {
        error: MembershipError,
        fatal: bool,
    },
    StateChanged {
        from: State,
        to: State,
    },
    FallBack {
        reason: String,
    },
    Assign {
        ticket: Ticket,
        assignor: String,
        members: Vec<(String, Option<String>, Vec<u8>)>,
    },
    RefreshMetadata,
    Event(GroupEvent),
    /// What is the same for both.
    Effect(Effect),
}

impl Machine {
    pub(crate) fn handle(&mut self, now: Now, input: Input) {
        match self {
            Self::Classic(member) => member.handle(now, classic_input(input)),
            Self::Consumer(member) => member.handle(now, consumer_input(input)),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        match self {
            Self::Classic(member) => member.poll().map(classic_output),
            Self::Consumer(member) => member.poll().map(consumer_output),
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Now> {
        match self {
            Self::Classic(member) => member.wake_at(),
            Self::Consumer(member) => member.wake_at(),
        }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Classic(_) => Protocol::Classic,
            Self::Consumer(_) => Protocol::Consumer,
        }
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Classic(member) => {
                let classic::Status { state, member_id, generation, owned, .. } = member.status();
                Status { state: State::Classic(state), member_id, generation, owned }
            }
            Self::Consumer(member) => {
                let consumer::Status { state, member_id, epoch, owned, .. } = member.status();
                let generation = if epoch > 0 { epoch } else { -1 };
                Status { state: State::Consumer(state), member_id, generation, owned }
            }
        }
    }
}

fn classic_input(input: Input) -> classic::Input {
    use classic::Input as To;
    match input {
        Input::Tick => To::Tick,
        Input::Subscribe(topics, naming) => To::Subscribe { topics, from_pattern: naming != Naming::Names },
        Input::Topics(topics) => To::Topics { topics },
        Input::Answer { id, outcome } => To::Answer { id, outcome: outcome.map(Answer::into_classic) },
        Input::Assigned { ticket, outcome } => To::Assigned { ticket, outcome },
        Input::Settled { ticket, offsets } => To::Settled { ticket, offsets },
        Input::CalledBack { ticket } => To::CalledBack { ticket },
        Input::Commit { ticket, offsets, deadline } => To::Commit { ticket, offsets, deadline },
        Input::Polled { at } => To::Polled { at },
        Input::Rejoin { at, reason } => To::Rejoin { at, reason },
        Input::Unsubscribe => To::Unsubscribe,
        Input::Close { deadline, leave } => To::Close { deadline, leave },
    }
}

fn consumer_input(input: Input) -> consumer::Input {
    use consumer::Input as To;
    match input {
        Input::Subscribe(topics, Naming::Names) => To::Subscribe(Subscription::Topics(topics)),
        Input::Subscribe(topics, Naming::Matched) => To::Subscribe(Subscription::Matched(topics)),
        Input::Subscribe(topics, Naming::Regex) => {
            let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
            To::Subscribe(Subscription::Regex(names.join("|")))
        }
        Input::Topics(topics) => To::Topics { topics },
        Input::Answer { id, outcome } => To::Answer { id, outcome: outcome.map(Answer::into_consumer) },
        Input::Settled { ticket, offsets } => To::Settled { ticket, offsets },
        Input::CalledBack { ticket } => To::CalledBack { ticket },
        Input::Commit { ticket, offsets, deadline } => To::Commit { ticket, offsets, deadline },
        Input::Polled { at } => To::Polled { at },
        Input::Unsubscribe => To::Unsubscribe,
        Input::Close { deadline, leave } => To::Close { deadline, leave },
        // The coordinator assigns, and when.
        Input::Tick | Input::Rejoin { .. } | Input::Assigned { .. } => To::Tick,
    }
}

fn classic_output(output: classic::Output) -> Output {
    use classic::Output as From;
    match output {
        From::Call { id, target, call } => Output::Call { id, target, call: Call::Classic(call) },
        From::Raise { error, fatal } => Output::Raise { error: error.into(), fatal },
        From::Event(GroupEvent::StateChanged { from, to }) => {
            Output::StateChanged { from: State::Classic(from), to: State::Classic(to) }
        }
        From::Event(event) => Output::Event(event),
        From::Assign { ticket, assignor, members } => Output::Assign { ticket, assignor, members },
        From::RefreshMetadata => Output::RefreshMetadata,
        From::Effect(effect) => Output::Effect(effect),
    }
}

fn consumer_output(output: consumer::Output) -> Output {
    use consumer::Output as From;
    match output {
        From::Call { id, target, call } => Output::Call { id, target, call: Call::Consumer(call) },
        From::Raise { error, fatal } => Output::Raise { error, fatal },
        From::StateChanged { from, to } => {
            Output::StateChanged { from: State::Consumer(from), to: State::Consumer(to) }
        }
        From::FallBack { reason } => Output::FallBack { reason },
        From::Resolve { .. } => Output::RefreshMetadata,
        From::Event(event) => Output::Event(event),
        From::Effect(effect) => Output::Effect(effect),
    }
}
