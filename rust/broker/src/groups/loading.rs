//! Taking over a partition of `__consumer_offsets`: its groups are read back from its log, and from nothing else.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::wire::Reader;

use super::consumer::is_consumer_record;
use super::records::{self, CLASSIC_GROUP_KEY, OFFSET_KEY, OLD_OFFSET_KEY, PENDING_OFFSET_KEY};
use super::{ClassicGroup, Effects, Group, Groups, Shard, Slot};
use crate::cluster::{Coordinated, StoredRecord};
use crate::core::Core;

impl Groups {
    /// A partition of `__consumer_offsets` has another leader, or the same in a new epoch.
    pub(crate) fn leader_changed(core: &mut Core, partition: i32) {
        Self::reload(core, partition, ErrorCode::NotCoordinator);
    }

    /// Drops what is known of a partition's groups, answers whoever waits with `error`, and reads them back if someone leads.
    pub(super) fn reload(core: &mut Core, partition: i32, error: ErrorCode) {
        Self::drop_shard(core, partition, error);
        let led =
            core.topics.partition(Coordinated::Groups.topic(), partition).is_some_and(|found| found.leader.is_some());
        if !led {
            return;
        }
        let load_ms = core.settings.coordinator_load_ms;
        if load_ms > 0 {
            let loaded_at_ms = core.now_ms.saturating_add(load_ms);
            core.groups.loads.insert((loaded_at_ms, partition));
            core.groups.shards.insert(partition, Shard { loaded_at_ms: Some(loaded_at_ms), ..Shard::default() });
        } else {
            Self::load(core, partition);
        }
    }

    fn drop_shard(core: &mut Core, partition: i32, error: ErrorCode) {
        let Some(shard) = core.groups.shards.remove(&partition) else {
            return;
        };
        if let Some(loaded_at_ms) = shard.loaded_at_ms {
            core.groups.loads.remove(&(loaded_at_ms, partition));
        }
        let mut effects = Effects::default();
        for mut slot in shard.slots.into_values() {
            if let Some(due_ms) = slot.due_ms {
                core.groups.due.remove(&(due_ms, partition, slot.id.clone()));
            }
            if let Some(group) = &mut slot.group {
                group.abandon(error, &mut effects);
            }
        }
        core.send_group_answers(effects);
    }

    pub(super) fn load(core: &mut Core, partition: i32) {
        core.groups.shards.insert(partition, Shard::default());
        let records = core.stored(Coordinated::Groups, partition);
        for record in &records {
            if let Err(error) = Self::replay(core, partition, record) {
                log::error!("a record of __consumer_offsets-{partition} is skipped: {error}");
            }
        }
        for id in core.groups.ids(partition) {
            let loaded = core.change_group(partition, &id, |core, slot, effects| {
                // An offset alone makes a group, too: who commits needs not be a member of one.
                slot.group.get_or_insert_with(|| Group::Classic(ClassicGroup::new(id.clone())));
                slot.loaded(core, effects);
                slot.drop_lost_topics(core, effects);
            });
            if loaded.is_err() {
                return;
            }
        }
        core.schedule_sweep();
    }

    fn replay(core: &mut Core, partition: i32, record: &StoredRecord) -> Result<(), String> {
        let mut key = Reader::new(&record.key);
        let layout = key.i16().map_err(|error| error.to_string())?;
        let group_id = text(&mut key)?;
        let mut slot = core.groups.take(partition, &group_id);
        let replayed = replay_into(&mut slot, layout, record);
        core.groups.put(partition, slot);
        replayed
    }
}

fn replay_into(slot: &mut Slot, layout: i16, record: &StoredRecord) -> Result<(), String> {
    let text = |error: monedula_protocol::error::WireError| error.to_string();
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
        _ if is_consumer_record(layout) => slot.replay_consumer(layout, record).map_err(text)?,
        _ => return Err(format!("unknown layout {layout}")),
    }
    Ok(())
}

/// The group's id, which is the first field of every key.
fn text(key: &mut Reader<'_>) -> Result<String, String> {
    let length = key.i16().map_err(|error| error.to_string())?;
    let bytes = key.bytes(usize::try_from(length).unwrap_or(0)).map_err(|error| error.to_string())?;
    String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
}
