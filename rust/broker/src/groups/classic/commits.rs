//! The check of OffsetCommit and TxnOffsetCommit in a classic group.

use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicState, MemberIdentity};

impl ClassicGroup {
    /// Checks whether the client may commit offsets. A commit renews the member's session, as a heartbeat does.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS.
    pub(crate) fn check_commit(
        &mut self,
        now_ms: i64,
        who: MemberIdentity<'_>,
        in_transaction: bool,
    ) -> Result<(), ErrorCode> {
        if who.generation_id < 0 && self.is_empty() {
            return Ok(());
        }
        if who.generation_id >= 0 || !who.member_id.is_empty() || who.instance_id.is_some() {
            self.check_member(who.member_id, who.instance_id)?;
            if who.generation_id != self.generation_id {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !in_transaction && !self.is_empty() {
            return Err(ErrorCode::UnknownMemberId);
        }
        if in_transaction {
            return Ok(());
        }
        match self.state {
            // The leader is computing the assignment: the partition may soon belong to another member.
            ClassicState::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => {
                self.renew_session(now_ms, who.member_id);
                Ok(())
            }
        }
    }
}
