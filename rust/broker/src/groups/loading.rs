//! Loading a partition of `__consumer_offsets`: the new leader reads the groups back from the partition's log alone.

use std::collections::BTreeMap;

use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::wire::Reader;

use super::consumer::is_consumer_record;
use super::records::{self, CLASSIC_GROUP_KEY, OFFSET_KEY, OLD_OFFSET_KEY, PENDING_OFFSET_KEY};
use super::share::is_share_record;
use super::{ClassicGroup, Effects, Group, Groups, Slot};
use crate::cluster::{Coordinated, StoredRecord};
use crate::core::Core;

impl Groups {
    /// Handles a new leader, or a new leader epoch, of a partition of `__consumer_offsets`: drops its groups, and loads
    /// them if the partition has a leader.
    pub(crate) fn leader_changed(core: &mut Core, partition: i32) {
        Self::drop_shard(core, partition);
        let led =
            core.topics.partition(Coordinated::Groups.topic(), partition).is_some_and(|found| found.leader.is_some());
        if !led {
            return;
        }
        let load_ms = core.settings.coordinator_load_ms;
        if load_ms > 0 {
            let loaded_at_ms = core.now_ms.saturating_add(load_ms);
            core.groups.loads.insert((loaded_at_ms, partition));
            core.groups.shards.insert(partition, BTreeMap::new());
        } else {
            Self::load(core, partition);
        }
    }

    /// Drops a partition's groups. Pending requests are answered NOT_COORDINATOR, so that clients look for the new
    /// coordinator.
    fn drop_shard(core: &mut Core, partition: i32) {
        let Some(shard) = core.groups.shards.remove(&partition) else { return };
        core.groups.loads.retain(|(_, loading)| *loading != partition);
        core.groups.due.retain(|(_, of, _)| *of != partition);
        let mut effects = Effects::default();
        for mut slot in shard.into_values() {
            if let Some(group) = &mut slot.group {
                group.abandon(ErrorCode::NotCoordinator, &mut effects);
            }
        }
        core.send_group_answers(effects);
    }

    pub(super) fn load(core: &mut Core, partition: i32) {
        core.groups.shards.insert(partition, BTreeMap::new());
        let records = core.topics.stored(Coordinated::Groups, partition);
        for record in &records {
            if let Err(error) = Self::replay(core, partition, record) {
                log::error!("a record of __consumer_offsets-{partition} is skipped: {error}");
            }
        }
        for id in core.groups.ids(partition) {
            // On an error `change_group` logs it and reads the group back as it was stored.
            let _ = core.change_group(partition, &id, |core, slot, effects| {
                slot.replayed(core, effects);
                slot.drop_lost_topics(core, effects);
                slot.drop_lost_share_topics(core, effects);
            });
        }
        core.groups.schedule_sweep(&core.settings.kafka, core.now_ms);
    }

    /// Undoes a change of a group that could not be stored: reads this group back from the log. Its pending requests
    /// are answered with the error.
    pub(super) fn restore(core: &mut Core, partition: i32, mut slot: Box<Slot>, error: ErrorCode) {
        let mut effects = Effects::default();
        if let Some(group) = &mut slot.group {
            group.abandon(error, &mut effects);
        }
        core.send_group_answers(effects);
        *slot = Slot { due_ms: slot.due_ms, ..Slot::new(slot.id.clone()) };
        for record in core.topics.stored(Coordinated::Groups, partition) {
            // Records that cannot be read were logged when the partition was loaded.
            if let Ok((layout, group_id)) = read_key(&record.key)
                && *group_id == *slot.id
            {
                let _ = replay_into(&mut slot, layout, &record);
            }
        }
        if !slot.is_vacant() {
            slot.replayed(core, &mut Effects::default());
        }
        core.groups.put(partition, slot);
    }

    fn replay(core: &mut Core, partition: i32, record: &StoredRecord) -> Result<(), String> {
        let (layout, group_id) = read_key(&record.key)?;
        let mut slot = core.groups.take(partition, &group_id);
        let replayed = replay_into(&mut slot, layout, record);
        core.groups.put(partition, slot);
        replayed
    }
}

fn replay_into(slot: &mut Slot, layout: i16, record: &StoredRecord) -> Result<(), String> {
    let text = |error: WireError| error.to_string();
    match layout {
        OFFSET_KEY | OLD_OFFSET_KEY | PENDING_OFFSET_KEY => {
            let key = records::read_offset_key(&record.key, layout).map_err(text)?;
            let committed = record.value.as_deref().map(records::read_offset).transpose().map_err(text)?;
            slot.offsets.replay(&key, committed);
        }
        CLASSIC_GROUP_KEY => match record.value.as_deref() {
            Some(value) => {
                let value = records::read_classic_group(value).map_err(text)?;
                slot.group = Some(Group::Classic(ClassicGroup::from_record(slot.id.clone(), &value)));
            }
            None if matches!(slot.group, Some(Group::Classic(_))) => slot.group = None,
            None => {}
        },
        _ if is_share_record(layout) => slot.replay_share(layout, record).map_err(text)?,
        _ if is_consumer_record(layout) => slot.replay_consumer(layout, record).map_err(text)?,
        _ => return Err(format!("unknown layout {layout}")),
    }
    Ok(())
}

impl Slot {
    /// Finishes a group after all its records have been applied.
    fn replayed(&mut self, core: &mut Core, effects: &mut Effects) {
        // Offsets without a group record: a client without membership committed them. They form a classic group.
        self.group.get_or_insert_with(|| Group::Classic(ClassicGroup::new(self.id.clone())));
        self.loaded(core, effects);
    }
}

/// The key version of a record, and the group id, which is the first field of every key.
fn read_key(key: &[u8]) -> Result<(i16, String), String> {
    let mut reader = Reader::new(key);
    let mut read = || -> Result<(i16, &[u8]), WireError> {
        let layout = reader.i16()?;
        let length = reader.i16()?;
        Ok((layout, reader.bytes(usize::try_from(length).unwrap_or(0))?))
    };
    let (layout, group_id) = read().map_err(|error| error.to_string())?;
    Ok((layout, String::from_utf8(group_id.to_vec()).map_err(|error| error.to_string())?))
}
