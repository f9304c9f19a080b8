//! The invariants of the model.

use super::*;

impl World {
    /// The invariants of every state.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.group.joining != self.group.members.values().filter(|member| member.joining.is_some()).count() {
            return Err("the joins that wait are counted wrongly".into());
        }
        if self.group.state == ClassicState::Stable && self.group.record().unwrap().value != self.stored.value {
            return Err(format!("what is stored is another group: {:?} {:?}", self.group, self.stored));
        }
        let mut owners = BTreeMap::new();
        for (index, process) in self.processes.iter().enumerate().filter(|(_, process)| process.is_stable()) {
            let held: &mut u8 = owners.entry(process.generation).or_default();
            if *held & process.owned != 0 {
                return Err(format!("two members of generation {} own one partition", process.generation));
            }
            *held |= process.owned;
            if process.generation > self.stored.generation {
                return Err(format!("member {index} is in generation {}, which is not stored", process.generation));
            }
            let known = self.stored.owned.get(&process.id);
            // A late join of the same static member can have replaced it.
            let is_replaced = known.is_none() && index < self.layout.statics;
            if process.generation == self.stored.generation && !is_replaced && known != Some(&process.owned) {
                return Err(format!(
                    "member {index} owns what is not stored as its own: {process:?} {:?}",
                    self.stored
                ));
            }
        }
        Ok(())
    }
}
