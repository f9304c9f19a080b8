//! The sweep of expired offsets (KIP-211). A group without members is deleted with its last offset.

use monedula_protocol::error_code::ErrorCode;

use super::classic::ClassicState;
use super::{CommittedOffset, Effects, Group, Groups, Slot};
use crate::core::Core;
use crate::settings::KafkaSettings;

const MINUTE_MS: i64 = 60_000;

/// The start of an offset's retention time.
enum Expiry {
    /// The commit.
    FromCommit,
    /// The time at which the group became empty, in milliseconds.
    From(i64),
    /// None: the group has members whose subscriptions are not known, so its offsets do not expire.
    Never,
}

impl Group {
    fn expiry(&self) -> Expiry {
        match self {
            Self::Classic(group) if group.protocol_type().is_none() => Expiry::FromCommit,
            Self::Classic(group) => match group.state() {
                ClassicState::Empty => group.state_since_ms().map_or(Expiry::FromCommit, Expiry::From),
                ClassicState::Stable if group.knows_subscriptions() => Expiry::FromCommit,
                _ => Expiry::Never,
            },
            Self::Consumer(_) => Expiry::FromCommit,
            Self::Share(_) => Expiry::Never,
        }
    }
}

impl Groups {
    /// Schedules a sweep, unless one is scheduled.
    pub(super) fn schedule_sweep(&mut self, settings: &KafkaSettings, now_ms: i64) {
        let interval_ms = settings.offsets_retention_check_interval_ms.max(1);
        self.sweep_at_ms.get_or_insert(now_ms.saturating_add(interval_ms));
    }

    /// Deletes the expired offsets of all loaded groups, and schedules the next sweep.
    pub(super) fn sweep(core: &mut Core) {
        core.groups.sweep_at_ms = None;
        core.groups.schedule_sweep(&core.settings.kafka, core.now_ms);
        for partition in core.groups.loaded_partitions() {
            for id in core.groups.ids(partition) {
                let swept: Result<(), ErrorCode> =
                    core.change_group(partition, &id, |core, slot, effects| slot.expire_offsets(core, effects));
                if swept.is_err() {
                    break;
                }
            }
        }
    }
}

impl Slot {
    fn expire_offsets(&mut self, core: &Core, effects: &mut Effects) {
        let retention_ms = i64::from(core.settings.kafka.offsets_retention_minutes).saturating_mul(MINUTE_MS);
        let Some(group) = &self.group else { return };
        let expiry = group.expiry();
        let is_expired = |committed: &CommittedOffset| match (committed.expires_at_ms, &expiry) {
            (_, Expiry::Never) => false,
            (Some(at_ms), _) => core.now_ms >= at_ms,
            (None, Expiry::FromCommit) => core.now_ms - committed.committed_at_ms >= retention_ms,
            (None, Expiry::From(since_ms)) => core.now_ms - since_ms >= retention_ms,
        };
        let mut expired = Vec::new();
        for (topic, partitions) in self.offsets.all() {
            if group.is_subscribed_to(topic) {
                continue;
            }
            for (&partition, committed) in partitions {
                if is_expired(committed) && !self.offsets.is_pending(topic, partition) {
                    expired.push((topic.clone(), partition));
                }
            }
        }
        for (topic, partition) in &expired {
            log::info!("group {}: the offset of {topic}-{partition} has expired", self.id);
            self.offsets.delete(&self.id, topic, *partition, effects);
        }
        if self.offsets.is_empty()
            && self.group.as_ref().is_some_and(|group| group.is_empty() && !matches!(group, Group::Share(_)))
        {
            self.delete(effects);
        }
    }
}
