//! The choice of a generation's protocol, and the subscriptions in the members' metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error::WireError;
use monedula_protocol::java;
use monedula_protocol::wire::Reader;

use super::{ClassicGroup, ClassicMember, ClassicState, Protocol};
use crate::groups::JoinedMember;

/// The protocol type of consumers. The coordinator can read their metadata.
pub(super) const CONSUMER: &str = "consumer";

impl ClassicGroup {
    /// True if a member with these protocols can join: the protocol type must be the group's, and all members must
    /// support one of the protocols.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == ClassicState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| self.is_supported_by_all(&protocol.name))
    }

    fn is_supported_by_all(&self, protocol: &str) -> bool {
        self.supported.get(protocol).copied().unwrap_or(0) == self.members.len()
    }

    pub(super) fn count_protocols(&mut self, protocols: &mut [Protocol]) {
        for protocol in protocols {
            match self.supported.get_key_value(&protocol.name) {
                // All members share the name, to save allocations.
                Some((name, _)) => protocol.name = Arc::clone(name),
                None => _ = self.supported.insert(Arc::clone(&protocol.name), 0),
            }
            *self.supported.entry(Arc::clone(&protocol.name)).or_default() += 1;
        }
    }

    pub(super) fn uncount_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            let Some(count) = self.supported.get_mut(&protocol.name) else { continue };
            *count -= 1;
            if *count == 0 {
                self.supported.remove(&protocol.name);
            }
        }
    }

    /// Selects the protocol: each member votes for the first of its protocols that all members support, and most votes
    /// win.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(vote) = member.protocols.iter().find(|protocol| self.is_supported_by_all(&protocol.name)) {
                *votes.entry(&vote.name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        let tied = votes.into_iter().filter(|(_, count)| *count == most);
        // As in Kafka, a tie is decided by the iteration order of a Java hash map, and so by the names.
        tied.map(|(name, _)| name).min_by_key(|name| bucket(name)).cloned()
    }

    /// The members for the leader's answer, with their metadata for the chosen protocol.
    pub(super) fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let joined = |(id, member): (&Arc<str>, &ClassicMember)| JoinedMember {
            member_id: Arc::clone(id),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        };
        self.members.iter().map(joined).collect()
    }

    pub(crate) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// True if a member subscribes to the topic. If the subscriptions are not known, consumers count as subscribed to
    /// every topic, and other clients to none.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed.as_ref().map_or_else(|| self.is_of_consumers(), |topics| topics.contains(topic))
    }

    pub(crate) fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some()
    }

    /// Reads the members' subscriptions again.
    pub(super) fn read_subscriptions(&mut self) {
        self.subscribed = self.subscriptions();
    }

    fn subscriptions(&self) -> Option<BTreeSet<String>> {
        if !self.is_of_consumers() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol_name.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            if let Err(error) = read_topics(&member.metadata(protocol), &mut topics) {
                log::warn!("group {}: what a member says for {protocol} is no subscription: {error}", self.id);
                return None;
            }
        }
        Some(topics)
    }
}

/// Reads the topics of a consumer's subscription. Every version of it begins with the version and the topics.
fn read_topics(metadata: &[u8], topics: &mut BTreeSet<String>) -> Result<(), WireError> {
    let mut reader = Reader::new(metadata);
    reader.i16()?;
    let count = reader.i32()?;
    for _ in 0..count {
        let length = reader.i16()?;
        let name = reader.bytes(usize::try_from(length).unwrap_or(0))?;
        topics.insert(String::from_utf8_lossy(name).into_owned());
    }
    Ok(())
}

/// The bucket of a string in a Java `HashMap` of the default capacity, 16.
fn bucket(text: &str) -> u32 {
    let hash = java::hash(text).cast_unsigned();
    (hash ^ (hash >> 16)) & 15
}
