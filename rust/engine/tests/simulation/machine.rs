//! What the simulation asks of members of either protocol.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::group::{GroupProtocol, MemberState, Subscription, classic, consumer};

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

impl Naming {
    /// The subscription to these topics of a member under `protocol`.
    pub(crate) fn subscription(self, topics: BTreeSet<Arc<str>>, protocol: GroupProtocol) -> Subscription {
        match (self, protocol) {
            (Self::Names, _) => Subscription::Topics(topics),
            (Self::Matched, _) | (Self::Regex, GroupProtocol::Classic) => Subscription::Matched(topics),
            (Self::Regex, GroupProtocol::Consumer) => {
                let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
                Subscription::Regex(names.join("|"))
            }
        }
    }
}

pub(crate) fn is_stable(state: MemberState) -> bool {
    matches!(
        state,
        MemberState::Classic(classic::ClassicState::Stable) | MemberState::Consumer(consumer::ConsumerState::Stable)
    )
}

/// On the way from one assignment to the next.
pub(crate) fn is_rebalancing(state: MemberState) -> bool {
    matches!(
        state,
        MemberState::Classic(classic::ClassicState::PreparingRebalance | classic::ClassicState::CompletingRebalance)
            | MemberState::Consumer(consumer::ConsumerState::Reconciling | consumer::ConsumerState::Acknowledging)
    )
}

pub(crate) fn may_revoke(state: MemberState) -> bool {
    matches!(
        state,
        MemberState::Classic(classic::ClassicState::Revoking)
            | MemberState::Consumer(consumer::ConsumerState::Reconciling)
    )
}
