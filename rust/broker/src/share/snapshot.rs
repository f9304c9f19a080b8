//! The stored state of share partitions, as records of `__share_group_state` in Kafka's layout.
//!
//! Every change is stored as a whole snapshot, of which the latest counts. Kafka writes updates between snapshots, whose
//! order compaction would lose; its readers take a log of snapshots alone.

use monedula_protocol::api::Message;
use monedula_protocol::error::WireError;
use monedula_protocol::messages::share_group_records::{
    ShareSnapshotKey, ShareSnapshotValue, StateBatch as StoredStateBatch,
};
use monedula_protocol::wire::Reader;

use super::state_batch::StateBatch;
use super::{ShareKey, SharePartition};
use crate::cluster::{StoredRecord, versioned};

/// The key version of a snapshot; the value has the same.
const SNAPSHOT: i16 = 0;
/// Kafka's number of the state of records that are done with.
const DONE: i8 = 2;

/// The stored state of a share partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The number of snapshots before.
    pub(crate) epoch: i32,
    /// Grows when the state is set anew.
    pub(crate) state_epoch: i32,
    pub(crate) leader_epoch: i32,
    /// The first offset that is not done with; -1 before the first fetch.
    pub(crate) start_offset: i64,
    /// The number of offsets behind the start offset that are done with.
    pub(crate) delivery_complete_count: i64,
    pub(crate) created_ms: i64,
    pub(crate) written_ms: i64,
    batches: Vec<StateBatch>,
}

impl Snapshot {
    /// The first state of a share partition.
    pub(crate) fn first(start_offset: i64, state_epoch: i32, now_ms: i64) -> Self {
        Self {
            epoch: 0,
            state_epoch,
            leader_epoch: 0,
            start_offset,
            delivery_complete_count: 0,
            created_ms: now_ms,
            written_ms: now_ms,
            batches: Vec::new(),
        }
    }

    /// The snapshot of a share partition that follows this one. As in Kafka, which writes before the start offset moves,
    /// it begins where the share partition began `before` the change: what is done with since is a state like others.
    pub(crate) fn followed_by(
        &self,
        (before, partition): (&SharePartition, &SharePartition),
        leader_epoch: i32,
        now_ms: i64,
    ) -> Self {
        let (first, start) = (before.start_offset(), partition.start_offset());
        let mut batches = partition.state_batches();
        if first < start {
            batches.insert(0, StateBatch { first, last: start - 1, state: DONE, delivery_count: 0 });
        }
        Self {
            epoch: self.epoch + 1,
            state_epoch: self.state_epoch,
            leader_epoch,
            start_offset: first,
            delivery_complete_count: start - first + partition.delivery_complete_count(),
            created_ms: self.created_ms,
            written_ms: now_ms,
            batches,
        }
    }

    /// The share partition with this state, which has to have a start offset.
    pub(crate) fn restored(&self) -> SharePartition {
        SharePartition::restored(self.start_offset, &self.batches)
    }
}

/// The record of a snapshot; without one, the tombstone that removes it.
///
/// # Errors
/// A group id of more than 32 kB.
pub(crate) fn snapshot_record(key: &ShareKey, snapshot: Option<&Snapshot>) -> Result<StoredRecord, WireError> {
    let (group_id, topic_id, partition) = (&*key.group, key.topic, key.partition);
    let key = versioned(&ShareSnapshotKey { group_id, topic_id, partition, ..Default::default() }, SNAPSHOT)?;
    let batch = |batch: &StateBatch| StoredStateBatch {
        first_offset: batch.first,
        last_offset: batch.last,
        delivery_state: batch.state,
        delivery_count: batch.delivery_count,
        ..Default::default()
    };
    let value = snapshot.map(|snapshot| {
        let value = ShareSnapshotValue {
            snapshot_epoch: snapshot.epoch,
            state_epoch: snapshot.state_epoch,
            leader_epoch: snapshot.leader_epoch,
            start_offset: snapshot.start_offset,
            delivery_complete_count: snapshot.delivery_complete_count as i32,
            create_timestamp: snapshot.created_ms,
            write_timestamp: snapshot.written_ms,
            state_batches: snapshot.batches.iter().map(batch).collect(),
            ..Default::default()
        };
        versioned(&value, SNAPSHOT)
    });
    Ok(StoredRecord { key, value: value.transpose()? })
}

/// Reads the record of a snapshot, or of its removal.
///
/// # Errors
/// A record that cannot be read, such as an update of Kafka's.
pub(crate) fn read_snapshot(record: &StoredRecord) -> Result<(ShareKey, Option<Snapshot>), WireError> {
    let mut reader = Reader::new(&record.key);
    let version = reader.i16()?;
    let key = ShareSnapshotKey::decode(&mut reader, version)?;
    let key = ShareKey { group: key.group_id.into(), topic: key.topic_id, partition: key.partition };
    let Some(value) = &record.value else { return Ok((key, None)) };
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    let value = ShareSnapshotValue::decode(&mut reader, version)?;
    let batch = |batch: &StoredStateBatch<'_>| StateBatch {
        first: batch.first_offset,
        last: batch.last_offset,
        state: batch.delivery_state,
        delivery_count: batch.delivery_count,
    };
    let snapshot = Snapshot {
        epoch: value.snapshot_epoch,
        state_epoch: value.state_epoch,
        leader_epoch: value.leader_epoch,
        start_offset: value.start_offset,
        delivery_complete_count: value.delivery_complete_count.max(0).into(),
        created_ms: value.create_timestamp,
        written_ms: value.write_timestamp,
        batches: value.state_batches.iter().map(batch).collect(),
    };
    Ok((key, Some(snapshot)))
}
