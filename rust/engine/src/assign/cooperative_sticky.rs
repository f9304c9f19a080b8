//! Cooperative sticky: assigns as sticky does, but a partition that is to move is left out until its owner has given it up.
//!
//! Whoever gives up a partition joins again, and in that round the partition is free (KIP-429).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::claims::{Claim, Claims};
use super::group::Group;
use super::{AssignError, Assignment, Assignor, LastAssignment, Protocol, Subscription, Topics, sticky};

/// Java's `CooperativeStickyAssignor`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CooperativeSticky;

impl Assignor for CooperativeSticky {
    fn name(&self) -> &str {
        "cooperative-sticky"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Cooperative
    }

    /// The generation, for leaders that do not read it from the subscription itself.
    fn user_data(&self, _topics: &BTreeSet<Arc<str>>, last: &LastAssignment) -> Option<Vec<u8>> {
        Some(last.generation.to_be_bytes().to_vec())
    }

    fn assign(&self, topics: &Topics, members: &[Subscription]) -> Result<Assignment, AssignError> {
        let group = Group::by_id(topics, members);
        let claims = Claims::settle(&group, claim);
        let mut owners = sticky::owners(&group, &claims);
        for (partition, owner) in owners.iter_mut().enumerate() {
            // Whoever claims it may still be reading, in whatever generation it believes to be.
            if claims.claimed[partition] && *owner != claims.owners[partition] {
                *owner = None;
            }
        }
        Ok(group.assignment(&owners))
    }
}

/// What the member owns. Its generation is told in its user data only by those from before KIP-792.
fn claim(member: &Subscription) -> Claim<'_> {
    let told = || member.user_data.as_deref()?.first_chunk().copied().map(i32::from_be_bytes);
    let generation = if member.generation >= 0 { member.generation } else { told().unwrap_or(-1) };
    (generation, Cow::Borrowed(&member.owned))
}
