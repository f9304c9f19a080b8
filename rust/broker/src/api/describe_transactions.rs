//! DescribeTransactions, version 0 (KIP-664): the state of transactional ids that the node coordinates.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData, TransactionState,
};

use super::Handled;
use crate::core::Core;
use crate::request::{Call, Mentions};
use crate::security::{Operation, Resource};
use crate::transactions::Transaction;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &DescribeTransactionsRequest<'_>) -> Handled {
    let ids = &request.transactional_ids;
    let found: Vec<Result<Transaction, ErrorCode>> = ids.iter().map(|id| describe_one(core, call, id)).collect();
    let states = ids.iter().zip(&found).map(|(id, found)| match found {
        Ok(transaction) => describe(id, transaction),
        Err(error) => refused(id, *error),
    });
    let response = DescribeTransactionsResponse { transaction_states: states.collect(), ..Default::default() };
    Ok(call.answer::<DescribeTransactionsRequest<'_>>(&response))
}

/// The state of a transactional id, without the topics that the client may not describe.
fn describe_one(core: &mut Core, call: &Call<'_>, id: &str) -> Result<Transaction, ErrorCode> {
    core.authorize(call, Operation::Describe, Resource::TransactionalId(id))?;
    let mut transaction = core.describe_transaction(call.node, id)?;
    transaction.partitions.retain(|(topic, _)| core.allows(call, Operation::Describe, Resource::Topic(topic)));
    Ok(transaction)
}

fn describe<'a>(id: &'a str, transaction: &'a Transaction) -> TransactionState<'a> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in &transaction.partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    TransactionState {
        transactional_id: id,
        transaction_state: transaction.state.name(),
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_start_time_ms: transaction.start_ms,
        producer_id: transaction.producer_id,
        producer_epoch: transaction.epoch,
        topics: topics
            .into_iter()
            .map(|(topic, partitions)| TopicData { topic, partitions, ..Default::default() })
            .collect(),
        ..Default::default()
    }
}

fn refused(transactional_id: &str, error: ErrorCode) -> TransactionState<'_> {
    TransactionState { transactional_id, error_code: error.code(), ..Default::default() }
}

pub(super) fn refuse<'a>(
    request: &DescribeTransactionsRequest<'a>,
    error: ErrorCode,
) -> DescribeTransactionsResponse<'a> {
    let transaction_states = request.transactional_ids.iter().map(|id| refused(id, error)).collect();
    DescribeTransactionsResponse { transaction_states, ..Default::default() }
}

pub(super) fn mentions<'a>(request: &DescribeTransactionsRequest<'a>) -> Mentions<'a> {
    Mentions { transactional_id: request.transactional_ids.first().copied(), ..Default::default() }
}
