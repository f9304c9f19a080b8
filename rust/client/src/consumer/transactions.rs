//! Offsets of the consumer on their way into a producer's transaction (KIP-447).
//!
//! What a transaction has of a partition and where the group goes on reading it must stand or fall together. So the member is
//! named as it was before its offsets were taken, and so are its topics by their ids: had it lost a partition in between, or a
//! topic been made anew, the coordinator would refuse it.
//! And a partition that was given up while the transaction had records of it spoils the transaction: its next owner
//! reads them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::TopicIds;
use monedula_engine::transaction::{GroupMetadata, TransactionError};

use super::Consumer;
use super::membership::no_group;
use crate::error::ClientError;
use crate::fetch::buffer::{CommitCall, FetchBuffer};
use crate::group::handle::Group;
use crate::group::{CommitError, CommitOffset, CommitWhat};

/// Offsets for a transaction, and who brings them.
pub struct TransactionOffsets {
    /// Who.
    pub group: GroupMetadata,
    /// What.
    pub offsets: BTreeMap<TopicPartition, CommitOffset>,
    /// No partition is given up before they are in the transaction.
    _call: CommitCall,
    buffer: Arc<FetchBuffer>,
}

/// Offsets in a transaction that has not ended yet.
pub struct PendingOffsets {
    offsets: BTreeMap<TopicPartition, CommitOffset>,
    buffer: Arc<FetchBuffer>,
}

impl PendingOffsets {
    /// The transaction was committed.
    pub fn committed(&self) {
        self.buffer.transaction_committed(&self.offsets);
    }
}

impl TransactionOffsets {
    /// What is to be told of the transaction's end.
    pub fn pending(&self) -> PendingOffsets {
        PendingOffsets { offsets: self.offsets.clone(), buffer: self.buffer.clone() }
    }
}

impl Consumer {
    /// Who this member is, as a transaction names it.
    ///
    /// # Errors
    /// Without a `group.id`, and while the consumer is no member of the group it subscribes in.
    pub fn group_metadata(&self) -> Result<GroupMetadata, ClientError> {
        let Some(group) = self.group.get().filter(|_| self.is_subscribed()) else { return self.nobody() };
        let metadata = Group::metadata(group);
        match metadata.generation {
            // Without a generation the coordinator would take it for anybody, and refuse nothing.
            ..=-1 => Err(must_abort("the consumer is no member of its group now".into())),
            _ => Ok(metadata),
        }
    }

    /// Whoever is no member.
    fn nobody(&self) -> Result<GroupMetadata, ClientError> {
        let group = self.config.group_id.clone().ok_or_else(no_group)?;
        let (member_id, topic_ids) = (String::new(), TopicIds::new());
        Ok(GroupMetadata { group, generation: -1, member_id, instance_id: None, topic_ids })
    }

    /// What is to be committed, for a transaction; as [`Self::commit`] takes it.
    ///
    /// # Errors
    /// Without a `group.id`, with `enable.auto.commit`, and where the transaction can only be aborted.
    pub fn take_offsets(&self, what: CommitWhat) -> Result<TransactionOffsets, ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        let nobody = self.nobody()?;
        if self.config.auto_commit_interval.is_some() {
            let message =
                "offsets that go into a transaction must not be committed beside it: set enable.auto.commit=false";
            return Err(ClientError::Argument(message.into()));
        }
        let call = self.buffer.begin_commit();
        let group = self.group_metadata();
        let given_up = self.buffer.take_revoked_unfinished();
        if let Some(partition) = given_up.first() {
            return Err(must_abort(format!(
                "{partition} was given up to another member of the group before its offset was in the transaction"
            )));
        }
        let (offsets, known) = self.to_commit(what);
        let lost = known.iter().find(|(_, (_, outcome))| matches!(outcome, Err(CommitError::NotOwned)));
        let not_owned = offsets.keys().find(|partition| self.is_subscribed() && !self.buffer.owns(partition));
        if let Some(partition) = lost.map(|(partition, _)| partition).or(not_owned) {
            return Err(must_abort(format!("{partition} is not assigned to this consumer any more")));
        }
        let group = match group {
            Ok(group) => group,
            Err(error) if !offsets.is_empty() => return Err(error),
            Err(_) => nobody,
        };
        Ok(TransactionOffsets { group, offsets, _call: call, buffer: self.buffer.clone() })
    }

    /// Reads again what was handed out and is not committed: after a transaction that was aborted.
    ///
    /// # Errors
    /// Without a `group.id`, or if the consumer is closed.
    pub fn rewind(&self) -> Result<(), ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        if self.config.group_id.is_none() {
            return Err(no_group());
        }
        self.buffer.take_revoked_unfinished();
        for (partition, base) in self.buffer.bases() {
            let start = base.map_or(Start::Policy, |base| Start::Offset(base.offset, base.leader_epoch));
            // One that was lost meanwhile is read again by another.
            let _ = self.buffer.seek(&partition, start);
        }
        Ok(())
    }
}

fn must_abort(reason: String) -> ClientError {
    TransactionError::MustAbort { reason }.into()
}
