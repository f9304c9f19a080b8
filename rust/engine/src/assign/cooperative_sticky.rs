//! Cooperative sticky: assigns as sticky does, but leaves out a partition that moves until its owner has revoked it.
//!
//! A member that has revoked partitions joins again, and in that round they are free (KIP-429).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::claims::{Claim, Claims};
use super::group::Group;
use super::{AssignError, Assignment, Assignor, LastAssignment, MemberSubscription, Protocol, Topics, sticky};

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

    /// The generation, for leaders that do not read it from the subscription.
    fn user_data(&self, _topics: &BTreeSet<Arc<str>>, last: &LastAssignment) -> Option<Vec<u8>> {
        Some(last.generation.to_be_bytes().to_vec())
    }

    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        let group = Group::by_id(topics, members);
        let claims = Claims::settle(&group, claim);
        let mut owners = sticky::owners(&group, &claims);
        for (partition, owner) in owners.iter_mut().enumerate() {
            // A member that claims the partition may still be reading it, whatever its generation is.
            if claims.claimed[partition] && *owner != claims.owners[partition] {
                *owner = None;
            }
        }
        Ok(group.assignment(&owners))
    }
}

/// The owned partitions. Only members from before KIP-792 send the generation in the user data.
fn claim(member: &MemberSubscription) -> Claim<'_> {
    let from_user_data = || member.user_data.as_deref()?.first_chunk().copied().map(i32::from_be_bytes);
    let generation = if member.generation >= 0 { member.generation } else { from_user_data().unwrap_or(-1) };
    (generation, Cow::Borrowed(&member.owned))
}
