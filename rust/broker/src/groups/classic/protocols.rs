//! Which protocol a generation follows, and what can be read from its members' metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error::WireError;
use monedula_protocol::java;
use monedula_protocol::wire::Reader;

use super::{ClassicGroup, ClassicState, Member, Protocol};
use crate::groups::JoinedMember;

/// The protocol type of consumers, whose metadata the coordinator can read.
pub(super) const CONSUMER: &str = "consumer";

impl ClassicGroup {
    /// Whether a member with these protocols can join: the type is the group's, and one of them is supported by all.
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
                // One allocation of the name for all members.
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

    /// Each member votes for the first of its protocols that all support; most votes win.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(vote) = member.protocols.iter().find(|protocol| self.is_supported_by_all(&protocol.name)) {
                *votes.entry(&vote.name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        let tied = votes.into_iter().filter(|(_, count)| *count == most);
        // Kafka takes the first that its hash map comes upon, which the names decide.
        tied.map(|(name, _)| name).min_by_key(|name| bucket(name)).cloned()
    }

    /// The members for the leader, with what they said of the chosen protocol.
    pub(super) fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let joined = |(id, member): (&Arc<str>, &Member)| JoinedMember {
            member_id: Arc::clone(id),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        };
        self.members.iter().map(joined).collect()
    }

    /// Whether the group's members are consumers.
    pub(crate) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// Whether a member reads the topic. Where that cannot be known, consumers are taken to read every topic.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed.as_ref().map_or_else(|| self.is_of_consumers(), |topics| topics.contains(topic))
    }

    /// Whether the subscriptions of the group's members are known.
    pub(crate) fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some()
    }

    /// Looks again what the members subscribe to.
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

/// A consumer's subscription begins with its version and its topics in every version.
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

/// Where a text lies in one of Java's hash maps of the usual size.
fn bucket(text: &str) -> u32 {
    let hash = java::hash(text).cast_unsigned();
    (hash ^ (hash >> 16)) & 15
}
