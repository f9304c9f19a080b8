//! The checks of OffsetCommit and OffsetFetch in a consumer group.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::{ConsumerGroup, ConsumerMember};
use crate::groups::MemberIdentity;

/// The first version of OffsetCommit with member epochs.
const EPOCHS_FROM: i16 = 9;

impl ConsumerGroup {
    /// Checks whether the client may commit offsets. `None` allows all offsets. If a member is returned, the request
    /// has an earlier epoch than the member, and [`ConsumerMember::check_commit_of`] decides for each partition.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, and ILLEGAL_GENERATION for a member of the classic
    /// protocol.
    pub(crate) fn check_commit(
        &self,
        who: MemberIdentity<'_>,
        version: i16,
        in_transaction: bool,
    ) -> Result<Option<&ConsumerMember>, ErrorCode> {
        let epoch = who.generation_id;
        if epoch < 0 && self.is_empty() {
            return Ok(None);
        }
        // The producers of old clients send no member id and no epoch.
        if in_transaction && epoch == -1 && who.member_id.is_empty() && who.instance_id.is_none() {
            return Ok(None);
        }
        let member = self.members.get(who.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if !in_transaction && member.classic.is_none() && version < EPOCHS_FROM {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if epoch > member.epoch {
            return Err(member.stale());
        }
        Ok(Some(member).filter(|_| epoch != member.epoch))
    }

    /// Checks the member id and epoch of an OffsetFetch. A request without them is allowed.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, and ILLEGAL_GENERATION for a member of the classic protocol.
    pub(crate) fn check_offset_fetch(&self, member_id: Option<&str>, member_epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none() && member_epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|id| self.members.get(id)).ok_or(ErrorCode::UnknownMemberId)?;
        if member.epoch == member_epoch { Ok(()) } else { Err(member.stale()) }
    }
}

impl ConsumerMember {
    /// Checks whether the member may commit for a partition in an earlier epoch than its own: the partition must have
    /// been assigned to it by then (KIP-1251).
    ///
    /// # Errors
    /// As [`ConsumerGroup::check_commit`].
    pub(crate) fn check_commit_of(&self, epoch: i32, topic: Uuid, partition: i32) -> Result<(), ErrorCode> {
        let given = self.assigned.epoch(topic, partition).or_else(|| self.pending_revocation.epoch(topic, partition));
        if given.is_some_and(|given| epoch >= given) { Ok(()) } else { Err(self.stale()) }
    }

    fn stale(&self) -> ErrorCode {
        match self.classic {
            Some(_) => ErrorCode::IllegalGeneration,
            None => ErrorCode::StaleMemberEpoch,
        }
    }
}
