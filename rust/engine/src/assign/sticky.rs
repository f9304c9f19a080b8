//! Sticky: balance comes first, then as few partitions as possible move.
//!
//! Under the eager protocol members own nothing when they join, so they send their last assignment as user data.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_protocol::api::Message;
use monedula_protocol::messages::consumer_protocol::StickyUserData;
use monedula_protocol::wire::{Reader, Writer};

use super::claims::{Claim, Claims};
use super::group::{Group, Owners};
use super::subscription::{by_topic, flat};
use super::{
    AssignError, Assignment, Assignor, LastAssignment, MemberSubscription, Protocol, Topics, constrained, general,
};

/// Java's `StickyAssignor`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sticky;

impl Assignor for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Eager
    }

    fn user_data(&self, _topics: &BTreeSet<Arc<str>>, last: &LastAssignment) -> Option<Vec<u8>> {
        if last.generation < 0 {
            return None;
        }
        let data = StickyUserData {
            previous_assignment: by_topic(&last.partitions),
            generation: last.generation,
            ..Default::default()
        };
        let mut writer = Writer::new();
        // An assignment fits into the user data. A member without user data only counts as a new one.
        data.encode(&mut writer, 1).ok()?;
        Some(writer.into_bytes())
    }

    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        let group = Group::by_id(topics, members);
        let owners = owners(&group, &Claims::settle(&group, claim));
        Ok(group.assignment(&owners))
    }
}

/// The claim in the member's user data. Malformed data counts as none, as in Java: the member is treated as new.
fn claim(member: &MemberSubscription) -> Claim<'_> {
    let nothing = (-1, Cow::Borrowed(&[][..]));
    let Some(bytes) = &member.user_data else { return nothing };
    // Version 0 has no generation; the two differ only in their length.
    let read = [1, 0].into_iter().find_map(|version| StickyUserData::decode(&mut Reader::new(bytes), version).ok());
    read.map_or(nothing, |data| (data.generation, Cow::Owned(flat(&data.previous_assignment))))
}

/// Computes the owners, given the members' claims.
pub(super) fn owners(group: &Group<'_>, claims: &Claims) -> Owners {
    let everyone = 0..group.members.len();
    let racks = group.racks().filter(|racks| racks.matter(everyone, 0..group.partition_count()));
    let same_topics = group.members.windows(2).all(|pair| pair[0].topics == pair[1].topics);
    if same_topics {
        constrained::owners(group, claims, racks.as_ref())
    } else {
        general::owners(group, claims, racks.as_ref())
    }
}
