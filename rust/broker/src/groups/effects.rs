//! The output of a group's state machine after a request or a timer: records to store, and answers to send.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::join_group::{JoinGroupResponse, JoinGroupResponseMember};
use monedula_protocol::messages::sync_group::SyncGroupResponse;

use crate::cluster::StoredRecord;
use crate::request::Ticket;

/// The records and answers of one change. All records are stored as one batch before any answer is sent.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) records: Vec<StoredRecord>,
    pub(crate) answers: Vec<(Ticket, GroupAnswer)>,
    /// Set if a record could not be encoded: then nothing is stored, and every answer has this error.
    pub(crate) broken: Option<ErrorCode>,
}

/// The answer to a request that a group may keep pending.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupAnswer {
    Join(JoinAnswer),
    Sync(SyncAnswer),
}

/// The content of a JoinGroup answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JoinAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) generation_id: i32,
    pub(crate) protocol_type: Option<Arc<str>>,
    pub(crate) protocol_name: Option<Arc<str>>,
    pub(crate) leader: Arc<str>,
    pub(crate) skip_assignment: bool,
    pub(crate) member_id: Arc<str>,
    /// Empty except in the leader's answer.
    pub(crate) members: Vec<JoinedMember>,
}

/// A member in the leader's JoinGroup answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JoinedMember {
    pub(crate) member_id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) metadata: Bytes,
}

/// The content of a SyncGroup answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyncAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) protocol_type: Option<Arc<str>>,
    pub(crate) protocol_name: Option<Arc<str>>,
    pub(crate) assignment: Bytes,
}

impl JoinAnswer {
    /// A JoinGroup answer with an error.
    pub(crate) fn refused(error: ErrorCode, member_id: Arc<str>) -> Self {
        Self {
            error,
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: "".into(),
            skip_assignment: false,
            member_id,
            members: Vec::new(),
        }
    }

    /// The response in a version of JoinGroup.
    pub(crate) fn response(&self, version: i16) -> JoinGroupResponse<'_> {
        let members = self.members.iter().map(|member| JoinGroupResponseMember {
            member_id: &member.member_id,
            group_instance_id: member.instance_id.as_deref(),
            metadata: &member.metadata,
            ..Default::default()
        });
        // The protocol name cannot be null up to version 6.
        let no_name = (version < 7).then_some("");
        JoinGroupResponse {
            error_code: self.error.code(),
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.as_deref(),
            protocol_name: self.protocol_name.as_deref().or(no_name),
            leader: &self.leader,
            skip_assignment: self.skip_assignment,
            member_id: &self.member_id,
            members: members.collect(),
            ..Default::default()
        }
    }
}

impl SyncAnswer {
    /// A SyncGroup answer with an error.
    pub(crate) fn refused(error: ErrorCode) -> Self {
        Self { error, protocol_type: None, protocol_name: None, assignment: Bytes::new() }
    }

    pub(crate) fn response(&self) -> SyncGroupResponse<'_> {
        SyncGroupResponse {
            error_code: self.error.code(),
            protocol_type: self.protocol_type.as_deref(),
            protocol_name: self.protocol_name.as_deref(),
            assignment: &self.assignment,
            ..Default::default()
        }
    }
}

impl Effects {
    /// Adds a record. Encoding fails for a string of more than 32 kB: flexible requests can carry one, records cannot.
    pub(crate) fn store(&mut self, record: Result<StoredRecord, WireError>) {
        match record {
            Ok(record) => self.records.push(record),
            Err(error) => {
                log::error!("a record of a group cannot be encoded: {error}");
                self.broken = Some(ErrorCode::UnknownServerError);
            }
        }
    }

    pub(crate) fn join(&mut self, ticket: Ticket, answer: JoinAnswer) {
        self.answers.push((ticket, GroupAnswer::Join(answer)));
    }

    pub(crate) fn sync(&mut self, ticket: Ticket, answer: SyncAnswer) {
        self.answers.push((ticket, GroupAnswer::Sync(answer)));
    }

    /// The same answers, each with `error` in place of its content.
    pub(crate) fn failed(self, error: ErrorCode) -> Self {
        let failed = |answer| match answer {
            GroupAnswer::Join(answer) => GroupAnswer::Join(JoinAnswer::refused(error, answer.member_id)),
            GroupAnswer::Sync(_) => GroupAnswer::Sync(SyncAnswer::refused(error)),
        };
        let answers = self.answers.into_iter().map(|(ticket, answer)| (ticket, failed(answer))).collect();
        Self { answers, ..Self::default() }
    }
}
