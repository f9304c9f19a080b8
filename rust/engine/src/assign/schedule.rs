//! The schedule of a deferring assignor: what was deferred and until when, and its encoding as user data.
//!
//! The leader sends it to every member with the assignment. A member sends it back when it joins, with the remaining
//! times updated, so that the next leader, whichever member that is, continues with it. Times are durations until
//! something happens: each member counts down with its own clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_protocol::error::WireError;
use monedula_protocol::messages::consumer_protocol::{
    Loss as WireLoss, Newcomers as WireNewcomers, ScheduleSubscription, ScheduleUserData, TopicSize,
};

use super::LastAssignment;
use super::subscription::{by_topic, flat};
use crate::TopicPartition;

/// The time when a group rebalances without a change of members or topics, and the partitions without an owner until
/// then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    /// The time until the rebalance, counted from the assignment; `None` if nothing was deferred.
    pub rejoin_after: Option<Duration>,
    /// The number of partitions that have no owner intentionally; `usize::MAX` if none is assigned yet.
    pub left_out: usize,
    /// The partitions of these that are reserved for lost members.
    pub losses: Vec<Loss>,
}

/// The partitions of members that were lost in one rebalance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// The time until the partitions are assigned to others.
    pub remaining: Duration,
    /// The number of these members that have not come back yet.
    pub members: usize,
    /// The partitions that they owned.
    pub partitions: BTreeSet<TopicPartition>,
    /// Their static ids, or else member ids. Empty if the group is too large to send them, see [`NAMES_BYTES_MAX`].
    pub names: BTreeSet<Arc<str>>,
}

/// Members that joined in one rebalance while the group waited for none, so that it grew. As many members that are lost
/// within the time are not waited for, because these have replaced them: a deployment that starts the new process
/// before it stops the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomers {
    /// The time for which they can replace a lost member.
    pub remaining: Duration,
    /// The number of them that have not replaced a lost member yet.
    pub members: usize,
}

/// The limit, in bytes, of all member names in a schedule; beyond it names are left out. Every member gets the names of
/// all members and sends them back, and the coordinator stores a group as one record, so the record grows with the
/// square of this.
pub const NAMES_BYTES_MAX: usize = 1024;

/// The deferred part of an assignment, and the members and topics of the group at that time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The time until the first partitions are assigned; `None` if they are.
    pub start: Option<Duration>,
    /// The time until the next round, in which partitions may move again.
    pub round: Option<Duration>,
    /// Set if moves were withheld for a later round.
    pub unbalanced: bool,
    /// The number of members of the group.
    pub members: usize,
    /// The number of partitions of each topic.
    pub topics: BTreeMap<Arc<str>, usize>,
    /// Partitions without an owner, because they move and have to be revoked first.
    pub moving: BTreeSet<TopicPartition>,
    /// Partitions without an owner, because they are reserved for lost members.
    pub losses: Vec<Loss>,
    /// Members that joined while the group waited for none.
    pub newcomers: Vec<Newcomers>,
    /// The names of the members; empty if they exceed [`NAMES_BYTES_MAX`].
    pub names: BTreeSet<Arc<str>>,
}

impl Schedule {
    /// Decodes the user data of an assignment.
    ///
    /// # Errors
    /// Malformed bytes, an unknown version, or an invalid number.
    pub fn read(bytes: &[u8]) -> Result<Self, ScheduleError> {
        let data = ScheduleUserData::read(bytes)?;
        let topic = |topic: &TopicSize<'_>| Ok((topic.topic.into(), count("a topic's partitions", topic.partitions)?));
        let loss = |loss: &WireLoss<'_>| {
            let members = match count("lost members", loss.members)? {
                0 => return Err(ScheduleError::Number { what: "lost members", number: 0 }),
                members => members,
            };
            let remaining = left(loss.remaining_ms).unwrap_or_default();
            let partitions = flat(&loss.partitions).into_iter().collect();
            Ok(Loss { remaining, members, partitions, names: names(&loss.names) })
        };
        let newcomers = |came: &WireNewcomers<'_>| {
            let members = count("newcomers", came.members)?;
            Ok(Newcomers { remaining: left(came.remaining_ms).unwrap_or_default(), members })
        };
        Ok(Self {
            start: left(data.start_ms),
            round: left(data.round_ms),
            unbalanced: data.unbalanced,
            members: count("members", data.members)?,
            topics: data.topics.iter().map(topic).collect::<Result<_, ScheduleError>>()?,
            moving: flat(&data.moving).into_iter().collect(),
            losses: data.losses.iter().map(loss).collect::<Result<_, ScheduleError>>()?,
            newcomers: data.newcomers.iter().map(newcomers).collect::<Result<_, ScheduleError>>()?,
            names: names(&data.names),
        })
    }

    /// Encodes the schedule as user data, which [`Self::read`] decodes.
    ///
    /// # Errors
    /// If a field cannot be encoded.
    pub fn write(&self) -> Result<Vec<u8>, WireError> {
        let small = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let topics =
            self.topics.iter().map(|(topic, &size)| TopicSize { topic, partitions: small(size), ..Default::default() });
        let losses = self.losses.iter().map(|loss| WireLoss {
            remaining_ms: millis(loss.remaining),
            members: small(loss.members),
            partitions: by_topic(&loss.partitions),
            names: loss.names.iter().map(|name| &**name).collect(),
            ..Default::default()
        });
        let newcomers = self.newcomers.iter().map(|came| WireNewcomers {
            remaining_ms: millis(came.remaining),
            members: small(came.members),
            ..Default::default()
        });
        let data = ScheduleUserData {
            start_ms: self.start.map_or(-1, millis),
            round_ms: self.round.map_or(-1, millis),
            unbalanced: self.unbalanced,
            members: small(self.members),
            topics: topics.collect(),
            moving: by_topic(&self.moving),
            losses: losses.collect(),
            newcomers: newcomers.collect(),
            names: self.names.iter().map(|name| &**name).collect(),
            ..Default::default()
        };
        data.write()
    }

    /// The schedule after this time has passed.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        self.start = self.start.map(|left| left.saturating_sub(time));
        self.round = self.round.map(|left| left.saturating_sub(time));
        for loss in &mut self.losses {
            loss.remaining = loss.remaining.saturating_sub(time);
        }
        for came in &mut self.newcomers {
            came.remaining = came.remaining.saturating_sub(time);
        }
        self
    }

    /// The schedule with all waits ended.
    pub(super) fn ended(mut self) -> Self {
        self.start = self.start.map(|_| Duration::ZERO);
        self.round = self.round.map(|_| Duration::ZERO);
        self.losses.iter_mut().for_each(|loss| loss.remaining = Duration::ZERO);
        self
    }

    /// The time when the group has to rebalance again, and the partitions without an owner until then.
    pub fn deferral(&self) -> Deferral {
        let lost = self.losses.iter().map(|loss| loss.remaining).min();
        let round = self.round.filter(|_| self.unbalanced);
        Deferral {
            rejoin_after: [self.start, round, lost].into_iter().flatten().min(),
            left_out: match self.start {
                Some(_) => usize::MAX,
                None => self.losses.iter().map(|loss| loss.partitions.len()).sum(),
            },
            losses: self.losses.clone(),
        }
    }

    /// The sum of all remaining times. Of two copies of the same schedule, the one with the smaller sum is older.
    fn waits(&self) -> Duration {
        let lost = self.losses.iter().map(|loss| loss.remaining);
        let came = self.newcomers.iter().map(|came| came.remaining);
        let all = [self.start, self.round].into_iter().flatten().chain(lost).chain(came);
        all.fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// The user data of a subscription, which a member sends to the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeferredUserData {
    /// The generation of the last assignment, if the member has been in the group ever since; `None` if it is new, or
    /// has lost all partitions.
    pub generation: Option<i32>,
    /// The schedule of that assignment.
    pub schedule: Option<Schedule>,
    /// Set if its user requested a rebalance that ends all waits.
    pub ends_waits: bool,
}

impl DeferredUserData {
    /// Decodes the user data of a subscription.
    ///
    /// # Errors
    /// Malformed bytes, an unknown version, or an invalid number.
    pub fn read(bytes: &[u8]) -> Result<Self, ScheduleError> {
        let subscription = ScheduleSubscription::read(bytes)?;
        let schedule = subscription.schedule.map(Schedule::read).transpose()?;
        let generation = Some(subscription.generation).filter(|generation| *generation >= 0);
        Ok(Self { generation, schedule, ends_waits: subscription.ends_waits })
    }

    /// Encodes the user data for a member's subscription. A last assignment by another assignor contains no schedule.
    pub(super) fn write(last: &LastAssignment) -> Result<Vec<u8>, WireError> {
        let ends_waits = last.ends_waits;
        if !last.current || last.generation < 0 {
            return ScheduleSubscription { generation: -1, ends_waits, ..Default::default() }.write();
        }
        let known = last.user_data.as_deref().and_then(|bytes| Schedule::read(bytes).ok());
        let schedule = known.map(|known| known.after(last.age).write()).transpose()?;
        let (generation, schedule) = (last.generation, schedule.as_deref());
        ScheduleSubscription { generation, schedule, ends_waits, ..Default::default() }.write()
    }
}

/// The current schedule, from all members' user data: of those with the newest generation, the copy that is oldest.
pub(super) fn newest(members: Vec<DeferredUserData>) -> Option<Schedule> {
    let known = members.into_iter().filter_map(|member| Some((member.generation?, member.schedule?)));
    let known: Vec<_> = known.collect();
    let last = known.iter().map(|(generation, _)| *generation).max()?;
    let of_last = known.into_iter().filter(|(generation, _)| *generation == last);
    of_last.map(|(_, schedule)| schedule).min_by_key(Schedule::waits)
}

/// The reason why user data cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Malformed bytes, or an unknown version.
    #[error("user data of a deferring assignor: {0}")]
    Wire(#[from] WireError),
    /// An invalid number.
    #[error("user data of a deferring assignor: {number} {what}")]
    Number {
        /// The thing that the number counts.
        what: &'static str,
        /// The number.
        number: i32,
    },
}

fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
    names.iter().map(|&name| name.into()).collect()
}

fn left(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// Milliseconds, rounded up: no wait may end too early.
fn millis(left: Duration) -> i32 {
    i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

fn count(what: &'static str, number: i32) -> Result<usize, ScheduleError> {
    usize::try_from(number).map_err(|_| ScheduleError::Number { what, number })
}
