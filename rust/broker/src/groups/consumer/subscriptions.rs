//! The subscriptions of a consumer group, by topic name and by pattern, and the resolution of patterns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;
use regex::Regex;

use super::{Change, ConsumerGroup, ConsumerMember, Context, Image, ResolvedRegex};
use crate::error::ApiError;

/// The change that a request makes to the pattern of a member.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum RegexUpdate {
    Unchanged,
    /// The pattern changed, and its matches are not known yet.
    Updated,
    /// The pattern changed, and its matches are known; or it was removed.
    UpdatedAndResolved,
}

/// The subscriptions of all members, as they are after a change.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    members: usize,
    /// The number of members that subscribe to a topic by name.
    by_name: BTreeMap<Arc<str>, usize>,
    /// The number of patterns that match a topic.
    by_regex: BTreeMap<Arc<str>, usize>,
    /// The number of members that subscribe with a pattern.
    regexes: BTreeMap<Arc<str>, usize>,
}

impl Subscriptions {
    /// True if all members subscribe to the same topics.
    pub(super) fn are_homogeneous(&self) -> bool {
        let topics = self.by_name.keys().chain(self.by_regex.keys());
        match self.regexes.values().next() {
            None => self.by_name.values().all(|&count| count == self.members) && self.by_regex.is_empty(),
            Some(&count) if count == self.members => topics
                .into_iter()
                .all(|topic| self.by_regex.get(topic) == Some(&1) && !self.by_name.contains_key(topic)),
            Some(_) => false,
        }
    }

    /// The hash of the metadata of the existing topics.
    pub(super) fn hash(&self, image: &dyn Image) -> i64 {
        metadata_hash(&self.by_name.keys().chain(self.by_regex.keys()).collect(), image)
    }
}

/// A hash of the metadata of those topics that exist: their ids, partition counts and racks. 0 if no topic exists.
pub(crate) fn metadata_hash(names: &BTreeSet<&Arc<str>>, image: &dyn Image) -> i64 {
    let mut hash = Fnv::default();
    let mut any = false;
    for name in names {
        let Some(id) = image.topic_id(name) else { continue };
        any = true;
        hash.add(&id.0);
        hash.add(&image.partitions(id).unwrap_or(0).to_be_bytes());
        for racks in image.racks(id) {
            hash.add(&(racks.len() as u32).to_be_bytes());
            racks.iter().for_each(|rack| hash.add(rack.as_bytes()));
        }
    }
    if any { hash.0 as i64 } else { 0 }
}

/// An FNV-1a hasher. The hash is stored, so it must be the same in the next process.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // The length keeps adjacent pieces apart.
        self.0 = (self.0 ^ bytes.len() as u64).wrapping_mul(0x0100_0000_01b3);
    }
}

impl ConsumerGroup {
    /// The group's subscriptions with `member` in place of its present state, and of the static member that it
    /// replaces.
    pub(super) fn subscriptions_with(&self, member: &ConsumerMember) -> Subscriptions {
        let before = self.members.get(&member.id);
        let replaced = member.instance_id.as_ref().and_then(|instance_id| self.static_members.get(instance_id));
        let others = self.members.values().filter(|other| other.id != member.id && Some(&other.id) != replaced);
        let before = before.or_else(|| replaced.and_then(|id| self.members.get(id)));
        let dropped = before.and_then(ConsumerMember::regex).filter(|regex| Some(*regex) != member.regex());
        let dropped = dropped.filter(|regex| self.subscribers(regex) == 1);
        self.subscriptions(others.chain([member]), dropped.into_iter().collect())
    }

    /// The group's subscriptions without these members.
    pub(super) fn subscriptions_without(&self, gone: &BTreeSet<Arc<str>>) -> Subscriptions {
        let left = self.members.values().filter(|member| !gone.contains(&member.id));
        self.subscriptions(left, self.regexes_without(gone).iter().collect())
    }

    /// The patterns that no member has once these members are gone.
    pub(super) fn regexes_without(&self, gone: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        let of_gone = gone.iter().filter_map(|id| self.members.get(id)).filter_map(ConsumerMember::regex);
        let is_left = |regex: &Arc<str>| {
            self.members.values().any(|member| !gone.contains(&member.id) && member.regex() == Some(regex))
        };
        of_gone.filter(|regex| !is_left(regex)).cloned().collect()
    }

    fn subscriptions<'a>(
        &self,
        members: impl Iterator<Item = &'a ConsumerMember>,
        dropped_regexes: BTreeSet<&Arc<str>>,
    ) -> Subscriptions {
        let mut all = Subscriptions::default();
        for member in members {
            all.members += 1;
            for name in &member.subscribed_names {
                *all.by_name.entry(Arc::clone(name)).or_default() += 1;
            }
            if let Some(regex) = member.regex() {
                *all.regexes.entry(Arc::clone(regex)).or_default() += 1;
            }
        }
        let resolved = self.regexes.iter().filter(|(regex, _)| !dropped_regexes.contains(regex));
        for topic in resolved.flat_map(|(_, resolved)| &resolved.topics) {
            *all.by_regex.entry(Arc::clone(topic)).or_default() += 1;
        }
        all
    }

    fn subscribers(&self, regex: &str) -> usize {
        self.regex_members.get(regex).copied().unwrap_or(0)
    }

    /// True if a member subscribes to a topic, by name or by pattern.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.subscribed_names.contains(topic))
            || self.regexes.values().any(|resolved| resolved.topics.contains(topic))
    }

    /// The ids of the existing topics that a member subscribes to.
    pub(super) fn subscribed_topics(&self, member: &ConsumerMember, image: &dyn Image) -> BTreeSet<Uuid> {
        let by_regex = member.regex().and_then(|regex| self.regexes.get(regex));
        let by_regex = by_regex.into_iter().flat_map(|resolved| &resolved.topics);
        member.subscribed_names.iter().chain(by_regex).filter_map(|name| image.topic_id(name)).collect()
    }

    /// Compares a member's pattern with that of `before`. Adds the change that drops the old pattern if no other member
    /// has it.
    ///
    /// # Errors
    /// INVALID_REGULAR_EXPRESSION.
    pub(super) fn update_regex(
        &self,
        before: &ConsumerMember,
        member: &ConsumerMember,
        changes: &mut Vec<Change>,
    ) -> Result<RegexUpdate, ApiError> {
        if before.subscribed_regex == member.subscribed_regex {
            return Ok(RegexUpdate::Unchanged);
        }
        if let Some(old) = before.regex().filter(|old| self.subscribers(old) == 1) {
            changes.push(Change::RegexGone(Arc::clone(old)));
        }
        let Some(new) = member.regex() else {
            return Ok(RegexUpdate::UpdatedAndResolved);
        };
        if self.subscribers(new) == 0 {
            compile(new).map_err(|problem| {
                let message = format!("SubscribedTopicRegex `{new}` is not a valid regular expression: {problem}.");
                ApiError::new(ErrorCode::InvalidRegularExpression, message)
            })?;
        } else if self.regexes.contains_key(new) {
            return Ok(RegexUpdate::UpdatedAndResolved);
        }
        Ok(RegexUpdate::Updated)
    }

    /// True if [`ConsumerGroup::resolve_regexes`] must be called.
    pub(crate) fn regexes_are_due(&self) -> bool {
        !self.regex_members.is_empty() && (self.refresh_regexes || self.regex_members.len() != self.regexes.len())
    }

    /// Resolves the members' patterns to topics. As in Kafka, where this runs in the background, the heartbeat that
    /// brought a pattern is answered without it. Kafka waits at least ten seconds before it resolves patterns again;
    /// this broker does not.
    pub(crate) fn resolve_regexes(&mut self, context: &Context<'_>) -> Vec<Change> {
        self.refresh_regexes = false;
        let wanted: Vec<_> = self.regex_members.keys().cloned().collect();
        let names = context.image.names();
        let mut changes = Vec::new();
        let mut changed = false;
        for regex in wanted {
            let topics: BTreeSet<Arc<str>> = match compile(&regex) {
                Ok(compiled) => names.iter().filter(|name| compiled.is_match(name)).cloned().collect(),
                // The pattern was stored by a version of this broker that accepted it.
                Err(_) => BTreeSet::new(),
            };
            changed |= self.regexes.get(&regex).map_or(!topics.is_empty(), |before| before.topics != topics);
            let resolved = ResolvedRegex { topics, at_ms: context.now_ms };
            if self.regexes.get(&regex) != Some(&resolved) {
                changes.push(Change::Regex(regex, resolved));
            }
        }
        self.apply_all(&changes);
        let none = BTreeSet::new();
        let hash = self.subscriptions_without(&none).hash(context.image);
        if changed || hash != self.metadata_hash {
            let bump = Change::Epoch(self.epoch + 1, hash);
            self.apply(&bump);
            changes.push(bump);
        }
        changes
    }
}

/// Compiles a pattern that matches whole names, as in Kafka. The `regex` crate has the syntax of RE2.
fn compile(regex: &str) -> Result<Regex, String> {
    // The pattern must compile alone, too: `a)|(b` would only compile within the group that is put around it.
    Regex::new(regex).map_err(|error| describe(&error))?;
    Regex::new(&format!("^(?:{regex})$")).map_err(|error| describe(&error))
}

/// The last line of the error, which says what is wrong.
fn describe(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    last.trim().trim_start_matches("error: ").to_owned()
}
