//! InitProducerId, versions 0-5: assigns producer ids to idempotent producers, and producer ids and epochs to
//! transactional ids.
//!
//! Not implemented: two-phase commit (KIP-939), which is unfinished in Kafka 4.3, too.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::{Handled, fenced_for};
use crate::core::Core;
use crate::request::{Call, Mentions};
use crate::security::{Operation, Resource};

/// Clients know PRODUCER_FENCED from this version on (KIP-588).
const PRODUCER_FENCED_FROM: i16 = 4;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &InitProducerIdRequest<'_>) -> Handled {
    check(core, call, request.transactional_id)?;
    let expected = match (request.producer_id, request.producer_epoch) {
        (-1, -1) => None,
        (-1, _) | (_, -1) => return Err(ErrorCode::InvalidRequest),
        expected => Some(expected),
    };
    let outcome = core.init_producer_id(call.node, request.transactional_id, request.transaction_timeout_ms, expected);
    let (producer_id, producer_epoch) =
        outcome.map_err(|error| fenced_for(call.version, PRODUCER_FENCED_FROM, error))?;
    let response = InitProducerIdResponse { producer_id, producer_epoch, ..Default::default() };
    Ok(call.answer::<InitProducerIdRequest<'_>>(&response))
}

/// Checks that the client may get a producer id. Without a transactional id, the right to write to some topic is enough
/// (KIP-679).
fn check(core: &Core, call: &Call<'_>, transactional_id: Option<&str>) -> Result<(), ErrorCode> {
    match transactional_id {
        Some(id) => core.authorize(call, Operation::Write, Resource::TransactionalId(id)),
        None if core.may_write_some_topic(call) => Ok(()),
        None => core.authorize(call, Operation::IdempotentWrite, Resource::Cluster),
    }
}

pub(super) fn refuse<'a>(_request: &InitProducerIdRequest<'a>, error: ErrorCode) -> InitProducerIdResponse<'a> {
    InitProducerIdResponse { error_code: error.code(), producer_id: -1, producer_epoch: -1, ..Default::default() }
}

pub(super) fn mentions<'a>(request: &InitProducerIdRequest<'a>) -> Mentions<'a> {
    Mentions { transactional_id: request.transactional_id, ..Default::default() }
}
