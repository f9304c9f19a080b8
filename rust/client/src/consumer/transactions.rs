//! Offsets of the consumer on their way into a producer's transaction (KIP-447).
//!
//! Records of a transaction and the group's offsets must be committed or aborted together. So the member's identity and
//! the ids of its topics are taken before its offsets: if it loses a partition in between, or a topic is recreated, the
//! coordinator refuses the offsets. And if a partition is released while the transaction has records of it, the
//! transaction must abort: the next owner reads them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;
use monedula_engine::group::TopicIds;
use monedula_engine::transaction::{GroupMetadata, TransactionError};

use super::Consumer;
use super::membership::no_group;
use crate::error::ClientError;
use crate::fetch::buffer::{CommitCall, FetchBuffer, HandedOut};
use crate::group::handle::Group;
use crate::group::{CommitError, CommitOffset, CommitWhat};

/// Offsets for a transaction, with the member that has finished them.
pub struct TransactionOffsets {
    /// The member.
    pub group: GroupMetadata,
    /// The offsets.
    pub offsets: BTreeMap<TopicPartition, CommitOffset>,
    /// While it lives, no partition is released: the offsets are not in the transaction yet.
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
        self.buffer.handed_out(|handed_out| handed_out.transaction_committed(&self.offsets));
    }
}

impl TransactionOffsets {
    /// A value to notify of the transaction's end.
    pub fn pending(&self) -> PendingOffsets {
        PendingOffsets { offsets: self.offsets.clone(), buffer: self.buffer.clone() }
    }
}

impl Consumer {
    /// Identity of this member, as a transaction names it.
    ///
    /// # Errors
    /// No `group.id`; a consumer that is no member of the group it subscribes in.
    pub fn group_metadata(&self) -> Result<GroupMetadata, ClientError> {
        let Some(group) = self.group.get().filter(|_| self.is_subscribed()) else { return self.nobody() };
        let metadata = Group::metadata(group);
        match metadata.generation {
            // Without a generation the coordinator would take it for a consumer that is no member, and refuse nothing.
            ..=-1 => Err(must_abort("the consumer is no member of its group now".into())),
            _ => Ok(metadata),
        }
    }

    /// The identity of a consumer that is no member.
    fn nobody(&self) -> Result<GroupMetadata, ClientError> {
        let group = self.base.config.group_id.clone().ok_or_else(no_group)?;
        let (member_id, topic_ids) = (String::new(), TopicIds::new());
        Ok(GroupMetadata { group, generation: -1, member_id, instance_id: None, topic_ids })
    }

    /// The offsets to commit in a transaction, of what [`Self::commit`] takes.
    ///
    /// # Errors
    /// No `group.id`; `enable.auto.commit`; a holder that never asked for records while others hold some; a transaction
    /// that can only be aborted.
    pub fn take_offsets(&self, what: CommitWhat) -> Result<TransactionOffsets, ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        let nobody = self.nobody()?;
        if self.base.config.auto_commit_interval.is_some() {
            let message =
                "offsets that go into a transaction must not be committed beside it: set enable.auto.commit=false";
            return Err(ClientError::Argument(message.into()));
        }
        if let CommitWhat::Finished { holder } = what
            && let Some((partition, at)) = self.buffer.handed_out(|handed_out| handed_out.held_by_others(holder))
        {
            return Err(ClientError::Argument(format!(
                "this thread or task never asked the consumer for records, so the transaction would be committed without \
                 their offsets; another one was handed those of {partition} before offset {}. Run the block in the thread \
                 or task that takes the records; or leave the consumer out of transaction(), and give the batch: \
                 transaction.send_offsets(consumer, batch)",
                at.offset
            )));
        }
        let call = self.buffer.begin_commit();
        let group = self.group_metadata();
        let revoked = self.buffer.handed_out(HandedOut::take_revoked_unfinished);
        if let Some(partition) = revoked.first() {
            return Err(must_abort(format!(
                "{partition} was revoked for another member of the group before its offset was in the transaction"
            )));
        }
        let (offsets, known) = self.to_commit(what);
        let lost = known.iter().find(|(_, (_, outcome))| matches!(outcome, Err(CommitError::NotOwned)));
        let not_owned = offsets
            .keys()
            .find(|partition| self.is_subscribed() && !self.buffer.look(|state| state.partitions().owns(partition)));
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
    /// No `group.id`; a consumer that is closed.
    pub fn rewind(&self) -> Result<(), ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        if self.base.config.group_id.is_none() {
            return Err(no_group());
        }
        self.buffer.handed_out(HandedOut::take_revoked_unfinished);
        for (partition, base) in self.buffer.handed_out(|handed_out| handed_out.bases()) {
            let start = base.map_or(Start::Policy, |base| Start::Offset(base.offset, base.leader_epoch));
            // A partition that was lost meanwhile is read again by its next owner.
            let _ = self.buffer.assignment().seek(&partition, start);
        }
        Ok(())
    }
}

fn must_abort(reason: String) -> ClientError {
    TransactionError::MustAbort { reason }.into()
}
