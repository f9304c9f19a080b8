//! Liveness of the model: without further faults, the group becomes stable.

use super::*;

/// The bound on rounds, of one step of each process, after which a group without faults must be stable.
const ROUNDS: usize = 60;

impl World {
    /// A stable group with all members.
    pub(super) fn settled(layout: Layout) -> Self {
        let mut world = Self::new(layout);
        world.processes.iter_mut().for_each(|process| process.running = true);
        for _ in 0..ROUNDS {
            if !world.take_turns().unwrap() && !world.has_settled() {
                world.let_time_pass().unwrap();
            }
        }
        assert!(world.has_settled(), "{world:?}");
        world
    }

    /// Checks that all running members reach the same generation, and that each partition has one owner.
    pub(super) fn converges(&self, settling: &mut HashSet<Vec<u8>>) -> Result<(), String> {
        let mut world = self.clone();
        world.layout.late = false;
        world.processes.iter_mut().for_each(|process| process.late = None);
        let mut passed = Vec::new();
        for _ in 0..ROUNDS {
            let key = world.key();
            if world.has_settled() || settling.contains(&key) {
                settling.extend(passed);
                return Ok(());
            }
            passed.push(key);
            if !world.take_turns()? && !world.let_time_pass()? {
                break;
            }
        }
        Err(format!("the group does not settle: {:?} {:?}", world.group, world.processes))
    }

    /// Each process takes its next step. Returns whether there was one besides heartbeats of stable members.
    fn take_turns(&mut self) -> Result<bool, String> {
        let mut moved = false;
        for index in 0..self.processes.len() {
            let process = &self.processes[index];
            let action = match process.waits {
                _ if !process.running => continue,
                _ if process.inbox.is_some() => Action::Receive(index),
                Waits::ForJoin | Waits::ForSync => continue,
                Waits::No if process.is_stable() => Action::Heartbeat(index),
                Waits::No if process.can_sync() => Action::Sync(index, 0, Delivery::Arrives),
                Waits::No => Action::Join(index, Delivery::Arrives),
            };
            self.step(&action)?;
            moved |= !self.processes[index].is_stable() || !matches!(action, Action::Heartbeat(_));
        }
        Ok(moved)
    }

    /// Fires the next timer: first the sessions of stopped processes, then the join and sync timers. Returns whether
    /// there was one.
    fn let_time_pass(&mut self) -> Result<bool, String> {
        let dead = self.group.due_ms.keys().find(|timer| matches!(timer, Timer::Session(id) if !self.is_alive(id)));
        let barrier = || self.group.due_ms.keys().find(|timer| !matches!(timer, Timer::Session(_)));
        let Some(timer) = dead.or_else(barrier).cloned() else { return Ok(false) };
        self.step(&Action::Fire(timer))?;
        Ok(true)
    }

    /// True if a running process has the id, or will have it with the answer that it awaits.
    fn is_alive(&self, id: &Arc<str>) -> bool {
        let awaited = |ticket: &Ticket| ticket.correlation_id == AWAITED;
        let waits = |member: &ClassicMember| member.joining.iter().chain(&member.syncing).any(awaited);
        self.processes.iter().any(|process| process.running && process.id == *id)
            || self.group.members.get(id).is_some_and(waits)
    }

    fn has_settled(&self) -> bool {
        let running = || self.processes.iter().filter(|process| process.running);
        let ids: BTreeSet<_> = running().map(|process| &process.id).collect();
        let state = if ids.is_empty() { ClassicState::Empty } else { ClassicState::Stable };
        let is_in = |process: &Process| process.is_stable() && process.generation == self.group.generation_id;
        let owned = running().fold(0, |owned, process| owned | process.owned);
        self.group.state == state
            && self.group.pending.is_empty()
            && ids.iter().copied().eq(self.group.members.keys())
            && running().all(is_in)
            && (ids.is_empty() || owned == self.all_partitions())
    }
}
