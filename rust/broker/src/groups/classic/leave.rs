//! LeaveGroup of a classic group.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicState, JoinRules};
use crate::groups::Effects;

/// A member that a LeaveGroup names.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Leaver<'a> {
    /// May be empty for a static member.
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    pub(crate) reason: &'a str,
}

impl ClassicGroup {
    /// Handles a LeaveGroup, from members or from an administrator. Returns the outcome of each, in order.
    pub(crate) fn leave(
        &mut self,
        now_ms: i64,
        leavers: &[Leaver<'_>],
        effects: &mut Effects,
    ) -> Vec<Result<(), ErrorCode>> {
        let outcomes: Vec<_> = leavers.iter().map(|leaver| self.leave_one(leaver, effects)).collect();
        if outcomes.iter().any(Result::is_ok) {
            match self.state {
                ClassicState::Stable | ClassicState::CompletingRebalance => {
                    self.prepare_rebalance(now_ms, JoinRules::NONE, "members have left", effects);
                }
                ClassicState::PreparingRebalance => self.maybe_complete_join(now_ms, effects),
                ClassicState::Empty => {}
            }
        }
        outcomes
    }

    fn leave_one(&mut self, leaver: &Leaver<'_>, effects: &mut Effects) -> Result<(), ErrorCode> {
        let id: Arc<str> = if leaver.member_id.is_empty() {
            let instance = leaver.instance_id.and_then(|instance_id| self.instances.get(instance_id));
            Arc::clone(instance.ok_or(ErrorCode::UnknownMemberId)?)
        } else {
            if !self.pending.contains(leaver.member_id) {
                self.check_member(leaver.member_id, leaver.instance_id)?;
            }
            leaver.member_id.into()
        };
        log::info!("group {}: member {id} leaves; client reason: {}", self.id, leaver.reason);
        self.remove(&id, effects);
        Ok(())
    }
}
