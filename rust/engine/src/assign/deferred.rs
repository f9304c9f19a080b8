//! The assignors `deferred` and `incremental`: cooperative sticky that defers assignments and moves (Designs II and III
//! of incremental cooperative rebalancing; KIP-415 brought the first to Connect).
//!
//! **Lost members.** Their partitions stay without an owner until a deadline, and no other member revokes any. A member
//! that joins meanwhile is treated as one that came back, and gets its part at once. At the deadline the other
//! partitions are assigned. A member that joins before one is lost, as in a deployment that starts the new process
//! first, has replaced it: then there is no wait. A user who requests a rebalance ends every wait.
//!
//! **Rounds.** Only a limited number of owned partitions moves in one round, with an interval between rounds.
//! Partitions without an owner are not limited.
//!
//! The leader's state for this travels with the assignment and comes back with the subscriptions ([`Schedule`]). The
//! assignment is a function of these alone, so any member can take over as leader.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::claims::Claims;
use super::group::{Group, Owners};
use super::schedule::{Deferral, DeferredUserData, Loss, NAMES_BYTES_MAX, Newcomers, Schedule, newest};
use super::{AssignError, Assignment, Assignor, LastAssignment, MemberSubscription, Protocol, Topics, sticky};

/// The delays and limits of the deferring assignors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// `scheduled.rebalance.max.delay.ms`: how long partitions are reserved for lost members.
    pub max_delay: Duration,
    /// `group.initial.rebalance.delay.ms`: how long the first member of a group waits for others.
    pub initial_delay: Duration,
    /// `max.moves.per.round`: how many partitions move in one round. `None`: no limit for `deferred`; one in [`ROUNDS`]
    /// of all partitions of the group, and at least one, for `incremental`.
    pub max_moves: Option<usize>,
    /// `round.interval.ms`: the time from one round to the next.
    pub round_interval: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            max_delay: Duration::from_secs(300),
            initial_delay: Duration::ZERO,
            max_moves: None,
            round_interval: Duration::from_secs(10),
        }
    }
}

/// The number of rounds in which `incremental` could move all partitions, however many they are. With one partition a
/// round, a group of a thousand partitions would take hours to rebalance after growing by a few members.
pub const ROUNDS: usize = 10;

/// The assignors `deferred` and `incremental`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deferred {
    name: &'static str,
    pace: Pace,
    /// Set if the limit per round is a share of the partitions when the pace has none.
    by_share: bool,
}

impl Deferred {
    /// The assignor `deferred`, which waits for lost members.
    pub(super) fn waiting(pace: Pace) -> Self {
        Self { name: "deferred", pace, by_share: false }
    }

    /// The assignor `incremental`, which waits for no member and limits moves per round.
    pub(super) fn incremental(pace: Pace) -> Self {
        Self { name: "incremental", pace: Pace { max_delay: Duration::ZERO, ..pace }, by_share: true }
    }
}

impl Assignor for Deferred {
    fn name(&self) -> &str {
        self.name
    }

    fn protocol(&self) -> Protocol {
        Protocol::Cooperative
    }

    fn user_data(&self, _topics: &BTreeSet<Arc<str>>, last: &LastAssignment) -> Option<Vec<u8>> {
        // The user data of an assignment fits into a subscription. A member without user data only counts as one that
        // knows no schedule.
        DeferredUserData::write(last).ok()
    }

    fn deferral(&self, user_data: Option<&[u8]>) -> Deferral {
        let schedule = user_data.and_then(|bytes| Schedule::read(bytes).ok());
        schedule.map(|schedule| schedule.deferral()).unwrap_or_default()
    }

    fn defers(&self) -> bool {
        true
    }

    fn assign(&self, topics: &Topics, members: &[MemberSubscription]) -> Result<Assignment, AssignError> {
        let group = Group::by_id(topics, members);
        let share = self.by_share.then(|| group.partition_count().div_ceil(ROUNDS).max(1));
        let (owners, schedule) = Round::new(self.pace, self.pace.max_moves.or(share), &group).assign();
        let user_data = schedule
            .write()
            .map_err(|error| AssignError::Failed { assignor: self.name.into(), reason: error.to_string() })?;
        let mut assignment = group.assignment(&owners);
        for assigned in assignment.values_mut() {
            assigned.user_data = Some(user_data.clone());
        }
        Ok(assignment)
    }
}

/// The computation of one assignment.
struct Round<'g, 'a> {
    pace: Pace,
    /// The most partitions that may move in this round; `None` for no limit.
    max_moves: Option<usize>,
    group: &'g Group<'a>,
    claims: Claims,
    /// The schedule of the previous assignment as the members report it, with times limited to this leader's settings.
    known: Option<Schedule>,
    /// Members that were already in the group.
    stood: Vec<bool>,
    /// The losses, whose partitions must not be assigned.
    losses: Vec<Lost>,
    /// Members that joined while the group waited for none, and that have not replaced a lost member yet.
    newcomers: Vec<Newcomers>,
    /// A member joined that does not replace a lost one: the group has grown, and is balanced at once.
    grown: bool,
}

struct Lost {
    remaining: Duration,
    members: usize,
    partitions: BTreeSet<usize>,
    names: BTreeSet<Arc<str>>,
    /// Set if the loss is new since the previous assignment.
    now: bool,
}

impl<'g, 'a> Round<'g, 'a> {
    fn new(pace: Pace, max_moves: Option<usize>, group: &'g Group<'a>) -> Self {
        let claims = Claims::settle(group, |member| (member.generation, Cow::Borrowed(&member.owned)));
        let (mut known, mut stood) = (Vec::new(), Vec::new());
        for member in &group.members {
            match member.user_data.as_deref().map(DeferredUserData::read) {
                Some(Ok(says)) => {
                    stood.push(says.generation.is_some());
                    known.push(says);
                }
                // No readable user data: a member that owns partitions was in the group.
                _ => stood.push(!member.owned.is_empty()),
            }
        }
        let ends_waits = known.iter().any(|says| says.ends_waits);
        let known = newest(known).map(|known| allowed(known, &pace));
        let known = known.map(|known| if ends_waits { known.ended() } else { known });
        let (losses, newcomers) = (Vec::new(), Vec::new());
        Self { pace, max_moves, group, claims, known, stood, losses, newcomers, grown: false }
    }

    fn assign(mut self) -> (Owners, Schedule) {
        if let Some(start) = self.start() {
            let schedule = Schedule { start: Some(start), members: self.group.members.len(), ..Schedule::default() };
            return (vec![None; self.group.partition_count()], schedule);
        }
        self.find_lost();
        self.hand_to_newcomers();
        self.cover_losses();
        for &partition in self.losses.iter().flat_map(|lost| &lost.partitions) {
            self.claims.reserved[partition] = true;
        }
        let mut owners = sticky::owners(self.group, &self.claims);
        let moves = self.ration(&mut owners);
        let schedule = self.schedule(&owners, moves);
        (owners, schedule)
    }

    /// The time that a new group still waits for more members; `None` if it does not.
    fn start(&self) -> Option<Duration> {
        if self.claims.claimed.contains(&true) {
            return None;
        }
        let left = match &self.known {
            Some(known) => known.start?,
            None if self.stood.contains(&true) => return None,
            None => self.pace.initial_delay,
        };
        Some(left).filter(|left| !left.is_zero())
    }

    /// Finds the lost members and the partitions that are reserved for them.
    fn find_lost(&mut self) {
        let mut kept_for_others: BTreeSet<usize> = BTreeSet::new();
        for Loss { remaining, members, partitions, names } in self.known.iter().flat_map(|known| &known.losses) {
            let numbers = partitions.iter().filter_map(|partition| self.group.partition(partition));
            let partitions: BTreeSet<usize> = numbers.filter(|&number| !self.claims.claimed[number]).collect();
            kept_for_others.extend(&partitions);
            if !remaining.is_zero() {
                let (remaining, members, names) = (*remaining, *members, names.clone());
                self.losses.push(Lost { remaining, members, partitions, names, now: false });
            }
        }
        let gone = match &self.known {
            Some(known) => known.members.saturating_sub(self.stood.iter().filter(|stood| **stood).count()),
            None => usize::from(self.stood.contains(&true)),
        };
        let known = self.known_partitions();
        let unowned = (0..known.len()).filter(|&partition| known[partition] && !self.claims.claimed[partition]);
        let partitions: BTreeSet<usize> = unowned.filter(|partition| !kept_for_others.contains(partition)).collect();
        if gone > 0 && !self.pace.max_delay.is_zero() {
            let names = self.known.as_ref().map(|known| &known.names - &self.names()).unwrap_or_default();
            self.losses.push(Lost { remaining: self.pace.max_delay, members: gone, partitions, names, now: true });
        }
    }

    fn names(&self) -> BTreeSet<Arc<str>> {
        self.group.members.iter().map(|member| name_of(member).into()).collect()
    }

    /// Partitions that were assigned before. New ones, and those that were moving, are assigned at once.
    fn known_partitions(&self) -> Vec<bool> {
        let mut all = vec![false; self.group.partition_count()];
        for topic in 0..self.group.topic_count() {
            let range = self.group.partitions(topic);
            let size = match &self.known {
                Some(known) => known.topics.get(self.group.name(topic)).copied().unwrap_or(0),
                // A topic without owned partitions and without a schedule counts as new.
                None if self.claims.claimed[range.clone()].contains(&true) => range.len(),
                None => 0,
            };
            all[range].iter_mut().take(size).for_each(|known| *known = true);
        }
        for partition in self.moving() {
            all[partition] = false;
        }
        all
    }

    fn moving(&self) -> Vec<usize> {
        let moving = self.known.iter().flat_map(|known| &known.moving);
        moving.filter_map(|partition| self.group.partition(partition)).collect()
    }

    /// Treats each new member as a lost one that came back, and gives it its part of the loss that ends first.
    fn hand_to_newcomers(&mut self) {
        self.losses.sort_by_key(|lost| lost.remaining);
        let mut came = 0;
        for newcomer in (0..self.stood.len()).filter(|&member| !self.stood[member]) {
            let wants = |partition: &usize| self.group.subscribes(newcomer, self.group.topic_of(*partition));
            let lost = self.losses.iter_mut().find(|lost| lost.partitions.iter().any(wants));
            let Some(lost) = lost else {
                self.grown = true;
                came += 1;
                continue;
            };
            let part = lost.partitions.len().div_ceil(lost.members);
            let free: Vec<usize> = lost.partitions.iter().copied().filter(|one| wants(one)).take(part).collect();
            lost.partitions.retain(|partition| !free.contains(partition));
            // As if the member had kept them: it also keeps the partitions beyond an even share.
            free.into_iter().for_each(|partition| self.claims.owners[partition] = Some(newcomer));
            lost.members -= 1;
            lost.names.remove(name_of(self.group.members[newcomer]));
            self.losses.retain(|lost| lost.members > 0);
        }
        self.newcomers = self.known.iter().flat_map(|known| known.newcomers.clone()).collect();
        // The first members of a group join one after the other; they replace no lost member.
        let begins = self.known.as_ref().map_or(!self.stood.contains(&true), |known| known.start.is_some());
        if came > 0 && !begins {
            self.newcomers.push(Newcomers { remaining: self.pace.max_delay, members: came });
        }
        self.newcomers.retain(|came| !came.remaining.is_zero());
    }

    /// Does not wait for a member that was lost after another one had joined: that one has replaced it, and already has
    /// its share.
    fn cover_losses(&mut self) {
        for lost in self.losses.iter_mut().filter(|lost| lost.now) {
            while lost.members > 0
                && let Some(came) = self.newcomers.iter_mut().find(|came| came.members > 0)
            {
                let part = lost.partitions.len().div_ceil(lost.members);
                lost.partitions = lost.partitions.iter().copied().skip(part).collect();
                (lost.members, came.members) = (lost.members - 1, came.members - 1);
            }
        }
        self.losses.retain(|lost| lost.members > 0 && !lost.partitions.is_empty());
        self.newcomers.retain(|came| came.members > 0);
    }

    /// Leaves partitions that must not move now with their owners, and leaves out those that have to be revoked first.
    fn ration(&self, owners: &mut Owners) -> Moves {
        let moving: BTreeSet<usize> = self.moving().into_iter().collect();
        let (mut wanted, mut busy) = (Vec::new(), BTreeSet::new());
        for partition in (0..owners.len()).filter(|&partition| self.claims.claimed[partition]) {
            let (had, gets) = (self.claims.owners[partition], owners[partition]);
            if had == gets && !moving.contains(&partition) {
                continue;
            }
            // A member that claims it may still be reading it.
            owners[partition] = None;
            match (had, gets) {
                // The revocation was already requested and is not taken back.
                (Some(had), _) if moving.contains(&partition) => {
                    busy.insert(had);
                }
                (Some(had), Some(gets)) if self.group.subscribes(had, self.group.topic_of(partition)) => {
                    wanted.push(Move { partition, had, gets });
                }
                // If several members claim it, none of them counts; and a member that does not subscribe to it cannot
                // keep it.
                _ => {}
            }
        }
        // A member runs one revocation after the other, so the partitions that it is already revoking would delay the
        // next ones.
        let (mut later, wanted): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|one| busy.contains(&one.had));
        let allowed = self.moves_now();
        let all = wanted.len();
        later.extend(self.beyond(allowed.unwrap_or(0), wanted));
        for one in &later {
            owners[one.partition] = Some(one.had);
        }
        let begun = all - later.iter().filter(|one| !busy.contains(&one.had)).count();
        Moves { begun, withheld: allowed.is_some() && !later.is_empty() }
    }

    /// The moves that exceed the limit. Moves from members with many partitions to members with few have priority.
    fn beyond(&self, allowed: usize, mut wanted: Vec<Move>) -> Vec<Move> {
        if allowed >= wanted.len() {
            return Vec::new();
        }
        let mut loads = vec![0_usize; self.group.members.len()];
        self.claims.owners.iter().flatten().for_each(|&owner| loads[owner] += 1);
        for _ in 0..allowed {
            let gain = |one: &Move| (loads[one.had].saturating_sub(loads[one.gets]), Reverse(one.partition));
            let first = (0..wanted.len()).max_by_key(|&place| gain(&wanted[place]));
            let Some(Move { had, gets, .. }) = first.map(|place| wanted.remove(place)) else { break };
            loads[had] = loads[had].saturating_sub(1);
            loads[gets] += 1;
        }
        wanted
    }

    /// The number of partitions that may begin to move now; `None` if none may before the wait for lost members ends.
    fn moves_now(&self) -> Option<usize> {
        let unbalanced = self.known.as_ref().is_some_and(|known| known.unbalanced);
        if !self.losses.is_empty() && !self.grown && !unbalanced {
            return None;
        }
        match self.max_moves {
            Some(_) if self.round_left().is_some() => Some(0),
            Some(most) => Some(most),
            None => Some(usize::MAX),
        }
    }

    fn round_left(&self) -> Option<Duration> {
        self.known.as_ref()?.round.filter(|left| !left.is_zero())
    }

    fn schedule(&self, owners: &Owners, moves: Moves) -> Schedule {
        let rationed = self.max_moves.is_some();
        let numbered = |numbers: &mut dyn Iterator<Item = usize>| numbers.map(|one| self.group.named(one)).collect();
        let mut moving = (0..owners.len()).filter(|&one| self.claims.claimed[one] && owners[one].is_none());
        let mut room = NAMES_BYTES_MAX;
        let mut if_room = |names: BTreeSet<Arc<str>>| match room.checked_sub(names.iter().map(|name| name.len()).sum())
        {
            Some(left) => {
                room = left;
                names
            }
            None => BTreeSet::new(),
        };
        let losses = self.losses.iter().map(|lost| Loss {
            remaining: lost.remaining,
            members: lost.members,
            partitions: numbered(&mut lost.partitions.iter().copied()),
            names: if_room(lost.names.clone()),
        });
        let losses = losses.collect();
        Schedule {
            start: None,
            round: match rationed && moves.begun > 0 {
                true => Some(self.pace.round_interval),
                false => self.round_left().filter(|_| rationed),
            },
            unbalanced: rationed && moves.withheld,
            members: self.group.members.len(),
            topics: (0..self.group.topic_count())
                .map(|topic| (self.group.name(topic).clone(), self.group.partitions(topic).len()))
                .collect(),
            moving: numbered(&mut moving),
            losses,
            newcomers: self.newcomers.clone(),
            names: if_room(self.names()),
        }
    }
}

/// A move of a partition from one member to another that would improve the balance.
#[derive(Clone, Copy)]
struct Move {
    partition: usize,
    had: usize,
    gets: usize,
}

/// The number of moves that began, and a flag for others that were withheld.
#[derive(Clone, Copy)]
struct Moves {
    begun: usize,
    withheld: bool,
}

/// The name of a member in schedules: its static id, which outlives the member id, or else the member id.
fn name_of(member: &MemberSubscription) -> &str {
    member.instance_id.as_ref().unwrap_or(&member.member_id)
}

/// Limits the remaining times of a schedule to this leader's settings, which may be shorter than the previous leader's.
fn allowed(mut known: Schedule, pace: &Pace) -> Schedule {
    known.start = known.start.map(|left| left.min(pace.initial_delay));
    known.round = known.round.map(|left| left.min(pace.round_interval));
    for loss in &mut known.losses {
        loss.remaining = loss.remaining.min(pace.max_delay);
    }
    for came in &mut known.newcomers {
        came.remaining = came.remaining.min(pace.max_delay);
    }
    known
}
