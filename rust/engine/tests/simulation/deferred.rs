//! Groups that leave things for later: what every assignment of theirs has to keep to, and the seed's scenarios, with moves and stops
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::assign::{
    DeferredUserData, Pace, ROUNDS, Schedule, assignment_bytes, read_assignment, read_subscriptions,
};
use monedula_engine::{Now, TopicPartition};

use crate::checks::{Pid, Rule};
use crate::plan::{DEFERRING, Disruption, Plan};
use crate::planted::Bug;
use crate::sometimes::Situation;
use crate::world::World;
use monedula_engine::group::{GroupProtocol, Member};

type Partitions = BTreeSet<TopicPartition>;

impl World {
    /// Judges an assignment by what members claim, and by what they were told before.
    pub(crate) fn judge_deferral(
        &mut self,
        members: &[(String, Option<String>, Vec<u8>)],
        given: &[(String, Vec<u8>)],
        incremental: bool,
    ) {
        let given: BTreeMap<&str, _> =
            given.iter().map(|(id, bytes)| (&**id, read_assignment(bytes).unwrap())).collect();
        let Some(schedule) = given.values().next().and_then(|one| Schedule::read(one.user_data.as_deref()?).ok())
        else {
            return self.checks.fail(Rule::Outcomes, "an assignment without a schedule");
        };
        let subscriptions = read_subscriptions(members).unwrap();
        let told: Vec<DeferredUserData> = subscriptions
            .iter()
            .map(|one| DeferredUserData::read(one.user_data.as_deref().unwrap()).unwrap())
            .collect();
        let known: Vec<&Schedule> = told.iter().filter_map(|told| told.schedule.as_ref()).collect();
        let mut begun = Partitions::new();
        for member in &subscriptions {
            let keeps: BTreeSet<_> = given[&*member.member_id].partitions.iter().collect();
            let claimed = member.owned.iter().filter(|partition| member.topics.contains(&partition.topic));
            begun.extend(claimed.filter(|partition| !keeps.contains(partition)).cloned());
        }
        // A partition that two members claim is kept for neither.
        let claims =
            |partition: &TopicPartition| subscriptions.iter().filter(|one| one.owned.contains(partition)).count();
        // Nor is one kept that the leader no longer sees, because its topic was deleted.
        let is_there = |partition: &TopicPartition| {
            schedule.topics.get(&partition.topic).is_some_and(|count| (partition.partition as usize) < *count)
        };
        begun.retain(|partition| {
            claims(partition) == 1 && is_there(partition) && !known.iter().any(|known| known.moving.contains(partition))
        });
        let all: BTreeSet<_> = subscriptions.iter().flat_map(|one| &one.topics).collect();
        let all: usize = all.into_iter().filter_map(|topic| schedule.topics.get(topic)).sum();
        let most = self.plan.pace.max_moves.or(incremental.then_some(all.div_ceil(ROUNDS).max(1)));
        if most.is_some_and(|most| begun.len() > most) {
            self.checks.fail(Rule::Rationed, format!("{begun:?} move at once, of {most:?}"));
        }
        let newcomers = told.iter().any(|told| told.generation.is_none());
        let unbalanced = known.iter().any(|known| known.unbalanced);
        if !schedule.losses.is_empty() {
            self.checks.met.met(Situation::KeptForLost);
            if !newcomers && !unbalanced && !begun.is_empty() {
                self.checks
                    .fail(Rule::KeptForLoss, format!("{begun:?} move, while {:?} is waited for", schedule.losses));
            }
        }
        let kept = |schedules: &[&Schedule]| -> usize {
            let lost = schedules.iter().flat_map(|one| &one.losses).flat_map(|loss| loss.partitions.clone());
            lost.collect::<Partitions>().len()
        };
        if newcomers && kept(&known) > kept(&[&schedule]) {
            self.checks.met.met(Situation::CameBack);
        }
        if schedule.unbalanced {
            self.checks.met.met(Situation::MovesWaited);
        }
        if schedule.start.is_some() {
            self.checks.met.met(Situation::WaitedAtStart);
        }
    }

    /// Who has too much, in a group whose members could all have the same.
    pub(crate) fn uneven(&self) -> Option<String> {
        let plain = self.plan.slots.iter().all(|slot| DEFERRING.contains(&slot.assignors[0]));
        let single = self.plan.slots.iter().all(|slot| slot.assignors.len() == 1);
        let classic = self.processes.values().all(|process| process.member.protocol() == GroupProtocol::Classic);
        let subscriptions: BTreeSet<_> = self.processes.values().map(|process| &process.subscription).collect();
        if !plain || !single || !classic || subscriptions.len() != 1 {
            return None;
        }
        let loads = self.processes.values().map(|process| process.member.status().owned.len());
        let (least, most) = (loads.clone().min()?, loads.max()?);
        (most > least + 1).then(|| format!("one member has {least} partitions, another {most}"))
    }

    fn owners(&self) -> BTreeMap<TopicPartition, Pid> {
        let owned = self.processes.iter().map(|(pid, process)| (pid, process.member.status().owned));
        owned.flat_map(|(&pid, owned)| owned.into_iter().map(move |partition| (partition, pid))).collect()
    }

    fn owned(&self, pid: Pid) -> Partitions {
        self.processes[&pid].member.status().owned
    }

    /// Runs on for so long. Who owns each partition at every moment, with the time for which it had no owner.
    fn watch(
        &mut self,
        time: Duration,
    ) -> (BTreeMap<TopicPartition, BTreeSet<Pid>>, BTreeMap<TopicPartition, Duration>) {
        let step = Duration::from_millis(10);
        let (mut owners, mut stopped) = (BTreeMap::new(), BTreeMap::new());
        let end = self.watched + time;
        while self.watched < end {
            self.watched += step;
            self.run_until(self.watched);
            assert!(self.checks.violation.is_none(), "{:?}", self.checks.violation);
            let now = self.owners();
            for index in 0..PARTITIONS {
                let partition = TopicPartition::new("t0", index);
                match now.get(&partition) {
                    Some(&pid) => _ = owners.entry(partition).or_insert_with(BTreeSet::new).insert(pid),
                    None => *stopped.entry(partition).or_insert(Duration::ZERO) += step,
                }
            }
        }
        (owners, stopped)
    }
}

/// Plants a bug in what the leader tells.
pub(crate) fn spoil(bug: Option<Bug>, mut given: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let planted = [Bug::MoveForLoss, Bug::ForgetDeadline];
    for (_, bytes) in given.iter_mut().filter(|_| bug.is_some_and(|bug| planted.contains(&bug))) {
        let mut assigned = read_assignment(bytes).unwrap();
        let mut schedule = Schedule::read(assigned.user_data.as_deref().unwrap()).unwrap();
        match bug {
            Some(Bug::MoveForLoss) if !schedule.losses.is_empty() => _ = assigned.partitions.pop(),
            Some(Bug::ForgetDeadline) => {
                schedule.losses.iter_mut().for_each(|loss| loss.remaining = secs(1_000_000));
                assigned.user_data = Some(schedule.write().unwrap());
            }
            _ => {}
        }
        *bytes = assignment_bytes(&assigned).unwrap();
    }
    given
}

/// Plants another: one member gets a partition less.
pub(crate) fn leave_out(mut given: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    if let Some((_, bytes)) = given.first_mut() {
        let mut assigned = read_assignment(bytes).unwrap();
        assigned.partitions.pop();
        *bytes = assignment_bytes(&assigned).unwrap();
    }
    given
}

/// What a group may wait for what it left for later, one thing after the other.
pub(crate) fn leaves_for_later(plan: &Plan) -> Duration {
    2 * plan.pace.max_delay + plan.pace.initial_delay + 40 * plan.pace.round_interval
}

const PARTITIONS: i32 = 20;
const SESSION: Duration = Duration::from_secs(45);
const HEARTBEAT: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(60);
/// What a rebalance takes besides: frames, assigning, lookups.
const SOME_TIME: Duration = Duration::from_secs(2);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// `members` in slots, all in by 30 s, and `more` that start when told.
fn group(assignor: &'static str, members: usize, more: usize, then: &[(u64, Disruption)]) -> World {
    let mut plan = Plan::quiet(members + more, 1, PARTITIONS as usize);
    plan.slots.iter_mut().for_each(|slot| slot.assignors = vec![assignor]);
    plan.pace = Pace { max_delay: WAIT, ..Pace::default() };
    for slot in 0..members {
        plan.disruptions.push((Now::from_millis(slot as u64), Disruption::Start(slot)));
    }
    plan.disruptions.extend(then.iter().map(|(at, what)| (secs(*at), what.clone())));
    let mut world = World::new(plan, None, false);
    world.watch(secs(30));
    assert_eq!(world.owners().len(), PARTITIONS as usize);
    world
}

/// The process in a slot: they start in order.
fn pid(slot: usize) -> Pid {
    slot as Pid + 1
}

fn leader(world: &World) -> Pid {
    let leads = |machine: &Member| machine.status().leader;
    let leader = world.processes.iter().find(|(_, process)| leads(&process.member));
    *leader.expect("somebody leads").0
}

/// Of these partitions each stopped for no longer, and all others never; survivors own what they owned, nobody else ever did.
#[track_caller]
fn only_stopped(stopped: &BTreeMap<TopicPartition, Duration>, partitions: &Partitions, most: Duration) {
    for (partition, time) in stopped {
        assert!(partitions.contains(partition), "{partition} stopped for {time:?}, and had nothing to do with it");
        assert!(*time <= most, "{partition} stopped for {time:?}");
    }
}

// req: S128
#[test]
fn a_process_that_is_killed_and_started_again_costs_its_own_partitions_the_restart_and_a_heartbeat() {
    for slot in 0..5 {
        // Kubernetes notices the end of a process at once, the coordinator only when the session ends: restarts before and after that.
        for back in [5, 50, 100] {
            let mut world = group("deferred", 5, 0, &[(31, Disruption::Kill(slot, secs(back)))]);
            world.watch(Duration::from_millis(500));
            let had = world.owned(pid(slot));
            let stayed = world.owners();
            let (owners, stopped) = world.watch(secs(170));
            let (restart, noticed) = (secs(back), SESSION + HEARTBEAT);
            only_stopped(&stopped, &had, restart.max(noticed) + HEARTBEAT + SOME_TIME);
            for (partition, owners) in owners {
                let new = if had.contains(&partition) { world.last_pid } else { stayed[&partition] };
                assert!(owners.iter().all(|owner| *owner == new || *owner == pid(slot) && had.contains(&partition)));
            }
            assert_eq!(world.owned(world.last_pid), had, "back after {back} s");
        }
    }
}

#[test]
fn members_that_are_closed_and_started_again_in_turn_each_end_with_what_they_had() {
    let turns: Vec<_> = (0..5).map(|slot| (31 + 40 * slot as u64, Disruption::Close(slot, secs(10)))).collect();
    let mut world = group("deferred", 5, 0, &turns);
    let had: Vec<Partitions> = (0..5).map(|slot| world.owned(pid(slot))).collect();
    world.watch(Duration::from_millis(500));
    for (slot, had) in had.iter().enumerate() {
        let (owners, stopped) = world.watch(secs(40));
        // The time of the restart, and until the other members hear of it.
        only_stopped(&stopped, had, secs(10) + HEARTBEAT + SOME_TIME);
        let back = pid(5 + slot);
        for (partition, owners) in owners {
            let others = owners.iter().filter(|owner| **owner != back && **owner != pid(slot)).count();
            assert_eq!(had.contains(&partition), others == 0, "{partition} of {slot}: {owners:?}");
            assert!(owners.len() <= 2);
        }
        assert_eq!(&world.owned(back), had);
    }
}

#[test]
fn what_nobody_comes_back_for_is_given_away_at_the_deadline_and_nothing_else_moves() {
    let mut world = group("deferred", 5, 0, &[(31, Disruption::Close(2, secs(10_000)))]);
    let (had, before) = (world.owned(pid(2)), world.owners());
    world.watch(secs(1));
    let (owners, stopped) = world.watch(WAIT + HEARTBEAT * 2);
    only_stopped(&stopped, &had, WAIT + HEARTBEAT + SOME_TIME);
    assert!(had.iter().all(|partition| stopped[partition] >= WAIT), "and not before: {stopped:?}");
    for (partition, owners) in owners {
        assert!(had.contains(&partition) || owners == BTreeSet::from([before[&partition]]), "{partition}: {owners:?}");
    }
    assert!(world.processes.values().all(|process| process.member.status().owned.len() == 5));
}

#[test]
fn a_lost_leader_is_a_lost_member_and_the_next_one_keeps_the_deadline() {
    // The leader, whichever member it is, is closed while the group waits for another lost member.
    let mut world = group("deferred", 5, 0, &[(31, Disruption::Close(4, secs(10_000)))]);
    let first = leader(&world);
    assert_ne!(first, pid(4));
    let (of_four, of_leader) = (world.owned(pid(4)), world.owned(first));
    world.watch(secs(31));
    assert!(of_four.iter().all(|partition| !world.owners().contains_key(partition)));
    world.close(first);
    let at = world.watched;
    world.watch(secs(29) - HEARTBEAT);
    assert_ne!(leader(&world), first);
    assert!(of_four.iter().all(|partition| !world.owners().contains_key(partition)), "not before the deadline");
    world.watch(HEARTBEAT * 3);
    let owners = world.owners();
    assert!(of_four.iter().all(|partition| owners.contains_key(partition)), "at the deadline that the members knew");
    assert!(of_leader.iter().all(|partition| !owners.contains_key(partition)), "which was not the leader's own");
    world.watch(at + WAIT + HEARTBEAT * 2 - world.watched);
    assert_eq!(world.owners().len(), PARTITIONS as usize);
}

#[test]
fn more_members_are_served_at_once_and_each_partition_that_moves_stops_for_two_rebalances() {
    let mut world = group("deferred", 4, 1, &[(31, Disruption::Start(4))]);
    let before = world.owners();
    world.watch(secs(1));
    let (_, stopped) = world.watch(secs(30));
    let got = world.owned(pid(4));
    assert_eq!(got.len(), 4);
    only_stopped(&stopped, &got, HEARTBEAT * 2 + SOME_TIME);
    let moved = world.owners().iter().filter(|(partition, owner)| before[*partition] != **owner).count();
    assert_eq!(moved, 4);
}

#[test]
fn incremental_moves_a_tenth_of_the_partitions_after_the_other_and_stops_no_other() {
    let mut world = group("incremental", 4, 1, &[(31, Disruption::Start(4))]);
    let before = world.owners();
    world.watch(Duration::from_millis(500));
    let (mut moved, mut sizes) = (Partitions::new(), BTreeSet::new());
    for _ in 0..8 {
        let (_, stopped) = world.watch(secs(10));
        moved.extend(stopped.keys().cloned());
        assert!(stopped.len() <= 2, "in one interval: {stopped:?}");
        sizes.insert(world.owned(pid(4)).len());
    }
    assert_eq!(sizes, [2, 4].into());
    assert_eq!(moved, world.owned(pid(4)));
    let stays = |(partition, owner): (&TopicPartition, &Pid)| moved.contains(partition) || before[partition] == *owner;
    assert!(world.owners().iter().all(stays));
}

// req: S124
#[test]
fn settings_choose_between_eager_and_cooperative_and_what_is_left_for_later() {
    for (assignor, stops_all, given_away, at_once) in [
        ("range", true, true, true),
        ("cooperative-sticky", false, true, true),
        ("deferred", false, false, true),
        ("incremental", false, true, false),
    ] {
        let then = [(31, Disruption::Close(3, secs(10_000))), (61, Disruption::Start(4))];
        let mut world = group(assignor, 4, 1, &then);
        let had = world.owned(pid(3));
        world.watch(secs(1));
        let (_, stopped) = world.watch(secs(20));
        assert_eq!(stopped.keys().any(|partition| !had.contains(partition)), stops_all, "{assignor}: {stopped:?}");
        assert_eq!(had.iter().all(|partition| world.owners().contains_key(partition)), given_away, "{assignor}");
        world.watch(secs(19));
        assert_eq!(world.owned(world.last_pid).len() >= 5, at_once, "{assignor}");
    }
}
