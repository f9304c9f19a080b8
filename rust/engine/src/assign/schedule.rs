//! What the members of a group know of things that were left for later, as bytes and as what they mean.
//!
//! The leader tells it to every member with the assignment. A member tells what is left of it when it joins, so that the next leader
//! goes on with it, whoever that is. Times are what is left until something happens: each member counts down by its own clock.

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

/// When a group meets again though nothing happens, and what has no owner until then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    /// In how much time, counted from the assignment; `None`: nothing was left for later.
    pub rejoin_after: Option<Duration>,
    /// Partitions that are nobody's on purpose.
    pub left_out: usize,
    /// What of that is kept for members that were lost.
    pub losses: Vec<Loss>,
}

/// What members left behind that were lost in one rebalance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Until it is given away.
    pub remaining: Duration,
    /// How many of them did not come back yet.
    pub members: usize,
    /// What they had.
    pub partitions: BTreeSet<TopicPartition>,
    /// Who they are: static ids, or member ids. Empty where the group is too large to tell, see [`NAMES_BYTES_MAX`].
    pub names: BTreeSet<Arc<str>>,
}

/// Members that came in one rebalance while nobody was waited for, so that the group was one larger: as many that are lost within
/// the time are not waited for, since these have taken their place. That is what a deployment looks like that starts the new process
/// before it ends the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomers {
    /// Until they are members like any other.
    pub remaining: Duration,
    /// How many of them have taken nobody's place yet.
    pub members: usize,
}

/// Every member is told the names of all, and tells them again: beyond so many bytes in all, names are left out. The coordinator
/// stores a group as one record, which grows with the square of this.
pub const NAMES_BYTES_MAX: usize = 1024;

/// What was left for later, and what the group was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Until the first partitions are assigned at all.
    pub start: Option<Duration>,
    /// Until partitions may move again.
    pub round: Option<Duration>,
    /// Whether some wait for that.
    pub unbalanced: bool,
    /// How many members there were.
    pub members: usize,
    /// How many partitions each topic had.
    pub topics: BTreeMap<Arc<str>, usize>,
    /// Nobody's, since they are to move and had to be given up first.
    pub moving: BTreeSet<TopicPartition>,
    /// Nobody's, since their owners may come back.
    pub losses: Vec<Loss>,
    /// Who came while nobody was waited for.
    pub newcomers: Vec<Newcomers>,
    /// Who the members were; empty if that is too much to tell.
    pub names: BTreeSet<Arc<str>>,
}

impl Schedule {
    /// Reads what a leader told.
    ///
    /// # Errors
    /// Bytes that are none, a version that is not known, numbers that mean nothing.
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

    /// As [`Self::read`] has it.
    ///
    /// # Errors
    /// What cannot be encoded.
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

    /// What is left of it after this time.
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

    /// What is left of it when nothing is waited for any more.
    pub(super) fn ended(mut self) -> Self {
        self.start = self.start.map(|_| Duration::ZERO);
        self.round = self.round.map(|_| Duration::ZERO);
        self.losses.iter_mut().for_each(|loss| loss.remaining = Duration::ZERO);
        self
    }

    /// When the group has to meet again, and what is nobody's until then.
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

    /// All that is left to wait for: of two that know the same, who waits less knows it longer.
    fn waits(&self) -> Duration {
        let lost = self.losses.iter().map(|loss| loss.remaining);
        let came = self.newcomers.iter().map(|came| came.remaining);
        let all = [self.start, self.round].into_iter().flatten().chain(lost).chain(came);
        all.fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// What a member tells the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The generation of its last assignment, if it is in the group since; `None`: it is new, or has lost all that it had.
    pub generation: Option<i32>,
    /// What it knows from there.
    pub schedule: Option<Schedule>,
    /// Its user wants a rebalance now, whatever is waited for.
    pub ends_waits: bool,
}

impl Told {
    /// Reads what a member told.
    ///
    /// # Errors
    /// Bytes that are none, a version that is not known, numbers that mean nothing.
    pub fn read(bytes: &[u8]) -> Result<Self, ScheduleError> {
        let told = ScheduleSubscription::read(bytes)?;
        let schedule = told.schedule.map(Schedule::read).transpose()?;
        let generation = Some(told.generation).filter(|generation| *generation >= 0);
        Ok(Self { generation, schedule, ends_waits: told.ends_waits })
    }

    /// What a member has to tell with this last assignment. One by another assignor says nothing of what is to come.
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

/// What the members know together: what those know who had the last assignment, and of these who had it first.
pub(super) fn newest(told: Vec<Told>) -> Option<Schedule> {
    let known = told.into_iter().filter_map(|told| Some((told.generation?, told.schedule?)));
    let known: Vec<_> = known.collect();
    let last = known.iter().map(|(generation, _)| *generation).max()?;
    let of_last = known.into_iter().filter(|(generation, _)| *generation == last);
    of_last.map(|(_, schedule)| schedule).min_by_key(Schedule::waits)
}

/// Why user data cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Bytes that are none, or of a version that is not known.
    #[error("user data of a deferring assignor: {0}")]
    Wire(#[from] WireError),
    /// A number that cannot be.
    #[error("user data of a deferring assignor: {number} {what}")]
    Number {
        /// Of what.
        what: &'static str,
        /// The number.
        number: i32,
    },
}

fn names(told: &[&str]) -> BTreeSet<Arc<str>> {
    told.iter().map(|&name| name.into()).collect()
}

fn left(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// Rounded up: nothing is to be over before it is.
fn millis(left: Duration) -> i32 {
    i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

fn count(what: &'static str, number: i32) -> Result<usize, ScheduleError> {
    usize::try_from(number).map_err(|_| ScheduleError::Number { what, number })
}
