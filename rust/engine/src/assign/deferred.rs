//! Deferred and incremental: cooperative sticky that leaves things for later (Designs II and III of incremental cooperative
//! rebalancing; KIP-415 has the first for Connect).
//!
//! **Lost members.** What they had stays without an owner until a deadline, and nobody else gives up anything. Whoever joins meanwhile
//! is taken for one that came back, and gets its part at once. At the deadline the rest is given away. A member that comes before one
//! is lost, as in a deployment that starts the new process first, has taken its place: nobody is waited for then. A user who wants a
//! rebalance ends every wait.
//!
//! **Rounds.** Of what members own no more than so many partitions move at a time, with a time between. What nobody owns is not
//! rationed.
//!
//! What the leader has to know for that travels with the assignment and comes back with the subscriptions ([`Schedule`]): it is a
//! function of those alone, so that any member can go on where another stopped.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::claims::Claims;
use super::group::{Group, Owners};
use super::schedule::{Deferral, Loss, NAMES_BYTES_MAX, Newcomers, Schedule, Told, newest};
use super::{AssignError, Assignment, Assignor, LastAssignment, Protocol, Subscription, Topics, sticky};

/// How long things are left for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// `scheduled.rebalance.max.delay.ms`: how long lost members are waited for.
    pub max_delay: Duration,
    /// `group.initial.rebalance.delay.ms`: how long the first member of a group waits for others.
    pub initial_delay: Duration,
    /// `max.moves.per.round`: how many partitions move at a time. `None`: `deferred` moves all that are to, `incremental` one in
    /// [`ROUNDS`] of all that the group has, and one at least.
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

/// In so many rounds `incremental` could move all partitions, however many they are: one a round would take a group of a thousand
/// partitions hours to grow by some members.
pub const ROUNDS: usize = 10;

/// The assignors `deferred` and `incremental`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deferred {
    name: &'static str,
    pace: Pace,
    /// Whether a share of the partitions moves at a time where the pace does not say how many.
    by_share: bool,
}

impl Deferred {
    /// Waits for lost members.
    pub(super) fn waiting(pace: Pace) -> Self {
        Self { name: "deferred", pace, by_share: false }
    }

    /// Waits for nobody, and moves little by little.
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
        // What came out of an assignment fits into a subscription; a member that says nothing is merely one that knows nothing.
        Told::write(last).ok()
    }

    fn deferral(&self, user_data: Option<&[u8]>) -> Deferral {
        let told = user_data.and_then(|bytes| Schedule::read(bytes).ok());
        told.map(|schedule| schedule.deferral()).unwrap_or_default()
    }

    fn defers(&self) -> bool {
        true
    }

    fn assign(&self, topics: &Topics, members: &[Subscription]) -> Result<Assignment, AssignError> {
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

/// One assignment in the making.
struct Round<'g, 'a> {
    pace: Pace,
    /// How many partitions move at a time; `None`: all that are to.
    max_moves: Option<usize>,
    group: &'g Group<'a>,
    claims: Claims,
    /// What the members know of the assignment before, with times that this leader would allow itself.
    known: Option<Schedule>,
    /// Whether each member was in the group before.
    stood: Vec<bool>,
    /// What is to have no owner, by the number of its partition.
    losses: Vec<Lost>,
    /// Who came while nobody was waited for, and has taken nobody's place yet.
    newcomers: Vec<Newcomers>,
    /// A member has come that nobody was waiting for: the group is larger now, and is balanced at once.
    grown: bool,
}

struct Lost {
    remaining: Duration,
    members: usize,
    partitions: BTreeSet<usize>,
    names: BTreeSet<Arc<str>>,
    /// Since the assignment before.
    now: bool,
}

impl<'g, 'a> Round<'g, 'a> {
    fn new(pace: Pace, max_moves: Option<usize>, group: &'g Group<'a>) -> Self {
        let claims = Claims::settle(group, |member| (member.generation, Cow::Borrowed(&member.owned)));
        let (mut told, mut stood) = (Vec::new(), Vec::new());
        for member in &group.members {
            match member.user_data.as_deref().map(Told::read) {
                Some(Ok(says)) => {
                    stood.push(says.generation.is_some());
                    told.push(says);
                }
                // Of one that cannot be understood only this is known: who owns something was there.
                _ => stood.push(!member.owned.is_empty()),
            }
        }
        let ends_waits = told.iter().any(|says| says.ends_waits);
        let known = newest(told).map(|known| allowed(known, &pace));
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

    /// How long a new group waits for more members; `None`: it does not.
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

    /// What members had that are not there any more, and that is waited for.
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

    /// Whether each partition is one that somebody was to have: what is new is assigned at once, and so is what was on its way.
    fn known_partitions(&self) -> Vec<bool> {
        let mut all = vec![false; self.group.partition_count()];
        for topic in 0..self.group.topic_count() {
            let range = self.group.partitions(topic);
            let size = match &self.known {
                Some(known) => known.topics.get(self.group.name(topic)).copied().unwrap_or(0),
                // Nobody remembers: a topic of which nobody owns anything is new.
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

    /// Each member that is new is taken for one that came back, and has its part of the loss that ends first.
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
            // As if it had kept them: the odd ones stay with it too.
            free.into_iter().for_each(|partition| self.claims.owners[partition] = Some(newcomer));
            lost.members -= 1;
            lost.names.remove(name_of(self.group.members[newcomer]));
            self.losses.retain(|lost| lost.members > 0);
        }
        self.newcomers = self.known.iter().flat_map(|known| known.newcomers.clone()).collect();
        // The members with which a group begins come one after the other, and take nobody's place.
        let begins = self.known.as_ref().map_or(!self.stood.contains(&true), |known| known.start.is_some());
        if came > 0 && !begins {
            self.newcomers.push(Newcomers { remaining: self.pace.max_delay, members: came });
        }
        self.newcomers.retain(|came| !came.remaining.is_zero());
    }

    /// Who was lost after another had come is not waited for: that one has taken its place, and has its share already.
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

    /// Takes back what is not to move now, and leaves out what has to be given up first.
    fn ration(&self, owners: &mut Owners) -> Moves {
        let moving: BTreeSet<usize> = self.moving().into_iter().collect();
        let (mut wanted, mut busy) = (Vec::new(), BTreeSet::new());
        for partition in (0..owners.len()).filter(|&partition| self.claims.claimed[partition]) {
            let (had, gets) = (self.claims.owners[partition], owners[partition]);
            if had == gets && !moving.contains(&partition) {
                continue;
            }
            // Whoever claims it may still be reading it.
            owners[partition] = None;
            match (had, gets) {
                // It was asked for: nobody changes his mind about that.
                (Some(had), _) if moving.contains(&partition) => {
                    busy.insert(had);
                }
                (Some(had), Some(gets)) if self.group.subscribes(had, self.group.topic_of(partition)) => {
                    wanted.push(Move { partition, had, gets });
                }
                // Of several who claim it none is believed, and who does not subscribe to it cannot keep it.
                _ => {}
            }
        }
        // A member gives up one lot after the other, so what it is busy with would hold up the next.
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

    /// Which of these moves are beyond so many: first come those from members with much to members with little.
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

    /// How many partitions may begin to move now; `None`: none before the wait for lost members is over.
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
        let mut told = |names: BTreeSet<Arc<str>>| match room.checked_sub(names.iter().map(|name| name.len()).sum()) {
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
            names: told(lost.names.clone()),
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
            names: told(self.names()),
        }
    }
}

/// A partition that balance would have go from one member to another.
#[derive(Clone, Copy)]
struct Move {
    partition: usize,
    had: usize,
    gets: usize,
}

/// What became of the moves that balance would take.
#[derive(Clone, Copy)]
struct Moves {
    begun: usize,
    withheld: bool,
}

/// What a member is called when others are told of it: its static id outlives the other.
fn name_of(member: &Subscription) -> &str {
    member.instance_id.as_ref().unwrap_or(&member.member_id)
}

/// Members may be told more patience than this leader has: its settings are what counts from here on.
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
