//! Heartbeat of a classic group, and the sessions that it renews.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicState, MemberIdentity, Timer};

impl ClassicGroup {
    /// Restarts the session timer of a member.
    pub(super) fn renew_session(&mut self, now_ms: i64, member_id: &str) {
        if let Some((id, member)) = self.members.get_key_value(member_id) {
            let at_ms = now_ms.saturating_add(member.session_timeout_ms.into());
            self.schedule(Timer::Session(Arc::clone(id)), at_ms);
        }
    }

    /// Handles a Heartbeat.
    ///
    /// # Errors
    /// REBALANCE_IN_PROGRESS if the member must join again; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    pub(crate) fn heartbeat(&mut self, now_ms: i64, who: MemberIdentity<'_>) -> Result<(), ErrorCode> {
        self.check_member(who.member_id, who.instance_id)?;
        if who.generation_id != self.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.renew_session(now_ms, who.member_id);
        match self.state {
            ClassicState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }
}
