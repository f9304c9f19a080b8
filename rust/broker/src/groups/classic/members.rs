//! The members of a classic group: adding and removing them, and which member a request is from.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, ClassicMember, Timer};
use crate::groups::{Effects, JoinAnswer, SyncAnswer};

/// The member that a request names as its sender.
#[derive(Copy, Clone, Debug)]
pub(crate) struct MemberIdentity<'a> {
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    /// The generation id (classic) or the member epoch (KIP-848); -1 from a client that is not a member.
    pub(crate) generation_id: i32,
}

impl ClassicGroup {
    /// Checks that a request is from a member of the group.
    pub(super) fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            let existing = self.instances.get(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
            if &**existing != member_id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    pub(super) fn add(&mut self, id: Arc<str>, protocol_type: &str, mut member: ClassicMember) {
        self.pending.remove(&id);
        if let Some(instance_id) = &member.instance_id {
            self.instances.insert(Arc::clone(instance_id), Arc::clone(&id));
        }
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.into());
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&id));
        }
        self.count_protocols(&mut member.protocols);
        self.members.insert(id, member);
    }

    /// Removes a member, or a member id that was assigned. Its pending requests are answered UNKNOWN_MEMBER_ID, so that
    /// a client that still runs joins again.
    pub(super) fn remove(&mut self, id: &str, effects: &mut Effects) {
        self.answer_join(id, JoinAnswer::refused(ErrorCode::UnknownMemberId, "".into()), effects);
        self.cancel(&Timer::Session(id.into()));
        self.pending.remove(id);
        self.unsynced.remove(id);
        let Some(member) = self.members.remove(id) else { return };
        if let Some(ticket) = member.syncing {
            effects.sync(ticket, SyncAnswer::refused(ErrorCode::UnknownMemberId));
        }
        self.uncount_protocols(&member.protocols);
        if let Some(instance_id) = &member.instance_id {
            self.instances.remove(instance_id);
        }
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
    }
}
