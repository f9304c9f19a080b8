//! Situations that answers show.

use monedula_protocol::error_code::ErrorCode;

use crate::messages::Answered;
use crate::sometimes::Situation;
use crate::world::World;
use monedula_engine::group::{Call, GroupResponse, HeartbeatCall};

impl World {
    pub(crate) fn meet(&mut self, call: &Call, answer: &GroupResponse) {
        let met = &mut self.checks.met;
        match answer.code() {
            ErrorCode::NotCoordinator => met.met(Situation::NotCoordinator),
            ErrorCode::CoordinatorLoadInProgress => met.met(Situation::LoadInProgress),
            _ => {}
        }
        match (call, answer) {
            (Call::ConsumerGroupHeartbeat(call), answer) => self.meet_heartbeat(call, answer),
            (call, answer) => self.meet_classic(call, answer),
        }
    }

    fn meet_classic(&mut self, call: &Call, answer: &GroupResponse) {
        let met = &mut self.checks.met;
        match answer {
            GroupResponse::Heartbeat { code: ErrorCode::IllegalGeneration } => met.met(Situation::IllegalGeneration),
            GroupResponse::Heartbeat { code: ErrorCode::UnknownMemberId } => met.met(Situation::UnknownMember),
            GroupResponse::JoinGroup { code: ErrorCode::UnknownMemberId, .. } => met.met(Situation::UnknownMemberJoins),
            GroupResponse::JoinGroup { code: ErrorCode::MemberIdRequired, .. } => met.met(Situation::MemberIdRequired),
            GroupResponse::SyncGroup { code: ErrorCode::RebalanceInProgress, .. } => {
                met.met(Situation::SyncDuringRebalance)
            }
            GroupResponse::JoinGroup { code: ErrorCode::None, skip_assignment: true, generation, .. } => {
                met.met(Situation::AssignmentSkipped);
                self.checks.oracle.returned(*generation);
            }
            GroupResponse::JoinGroup { code: ErrorCode::None, generation, leader, member_id, .. } => {
                let Call::JoinGroup { instance_id, member_id: asked, .. } = call else { return };
                // Others have this generation already: a static member came back without a rebalance.
                let same = self.processes.values().any(|process| process.member.status().generation == *generation);
                if instance_id.is_some() && asked.is_empty() && same && leader != member_id {
                    met.met(Situation::StaticReturn);
                    self.checks.oracle.returned(*generation);
                }
            }
            _ => {}
        }
    }

    fn meet_heartbeat(&mut self, call: &HeartbeatCall, answer: &GroupResponse) {
        let GroupResponse::ConsumerGroupHeartbeat { code, epoch, .. } = answer else { return };
        let met = &mut self.checks.met;
        let situation = match (code, call.epoch) {
            (ErrorCode::FencedMemberEpoch, _) => Situation::FencedEpoch,
            (ErrorCode::UnknownMemberId, 1..) => Situation::UnknownConsumer,
            (ErrorCode::None, -2) => Situation::LeftForAWhile,
            (ErrorCode::None, 1..) if *epoch == call.epoch && call.owned.is_some() && call.topics.is_some() => {
                Situation::ToldEverythingAgain
            }
            (ErrorCode::None, 1..) if call.regex.is_some() => Situation::PatternChanged,
            (ErrorCode::None, 0) if call.regex.as_ref().is_some_and(|regex| !regex.is_empty()) => {
                Situation::MatchedByBroker
            }
            _ => return,
        };
        met.met(situation);
    }
}
