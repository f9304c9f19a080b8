//! Liveness of the model: without further faults, the group becomes stable.

use super::*;

/// The bound on rounds of heartbeats after which a group without faults must be stable.
const ROUNDS: usize = 12;

impl World {
    /// Checks that without further faults each partition gets one owner, which keeps it.
    pub(super) fn converges(&self) -> Result<(), String> {
        let mut world = self.clone();
        for index in 0..world.processes.len() {
            // A stopped process stays stopped, and its session ends.
            if !world.processes[index].running {
                let ids: Vec<_> =
                    world.group.members.keys().filter(|id| id.starts_with(&format!("m{index}-"))).cloned().collect();
                for id in ids {
                    let (topic, settings) = (world.topic, settings());
                    let context = Context { now_ms: 0, image: &topic, settings };
                    let changes = world.group.fence(&context, &[id].into());
                    world.store(&changes);
                }
            }
        }
        for _ in 0..ROUNDS {
            if world.has_settled() {
                break;
            }
            for index in 0..world.processes.len() {
                if !world.processes[index].running {
                    continue;
                }
                let joins = world.processes[index].epoch == JOIN_EPOCH;
                world.step(if joins { Action::Join(index, Loss::None) } else { Action::Full(index, Loss::None) })?;
                if world.processes[index].told.is_some() {
                    world.step(Action::Follow(index))?;
                }
                // A static member's former process is still a member: it can only join once that session ends.
                if !world.processes[index].running {
                    let former: Vec<_> = world
                        .group
                        .members
                        .keys()
                        .filter(|id| id.starts_with(&format!("m{index}-")))
                        .cloned()
                        .collect();
                    let (topic, settings) = (world.topic, settings());
                    let context = Context { now_ms: 0, image: &topic, settings };
                    let changes = world.group.fence(&context, &former.into_iter().collect());
                    world.store(&changes);
                    world.processes[index].running = true;
                    world.processes[index].epoch = JOIN_EPOCH;
                }
            }
        }
        if world.has_settled() {
            return Ok(());
        }
        Err(format!("the group does not settle: {:?} {:?}", world.group, world.processes))
    }

    /// True if the running members own all partitions, evenly, and the group is stable.
    fn has_settled(&self) -> bool {
        let sizes = || self.processes.iter().filter(|process| process.running).map(|process| process.owned.len());
        let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else { return true };
        let running = self.processes.iter().filter(|process| process.running);
        running.into_iter().all(|process| process.told.is_none() && process.epoch == self.group.target_epoch)
            && sizes().sum::<usize>() == self.topic.0 as usize
            && most - least <= 1
            && self.group.state() == GroupState::Stable
            && !self.group.refresh
    }
}
