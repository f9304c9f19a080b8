//! ListTransactions, versions 0-2 (KIP-664): lists the transactional ids that the node coordinates, filtered by state,
//! producer id, duration and pattern.
//!
//! Not implemented: RE2/J, in which Kafka reads the pattern. It is one of Rust's `regex` crate here.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::list_transactions::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionState,
};
use regex::Regex;

use super::Handled;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};
use crate::transactions::{self, Transaction};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ListTransactionsRequest<'_>) -> Handled {
    Ok(call.answer::<ListTransactionsRequest<'_>>(&list(core, call, request)?))
}

fn list<'a>(
    core: &'a Core,
    call: &Call<'_>,
    request: &ListTransactionsRequest<'a>,
) -> Result<ListTransactionsResponse<'a>, ErrorCode> {
    let transactions = core.transactions_of(call.node)?;
    // The pattern must match the whole transactional id.
    let pattern = request.transactional_id_pattern.filter(|pattern| !pattern.is_empty());
    let pattern = pattern.map(|pattern| Regex::new(&format!("^(?:{pattern})$"))).transpose();
    let pattern = pattern.map_err(|_| ErrorCode::InvalidRegularExpression)?;
    let is_wanted = |&(id, transaction): &(&str, &Transaction)| {
        let states = &request.state_filters;
        let ids = &request.producer_id_filters;
        let open_ms = core.now_ms.saturating_sub(transaction.start_ms);
        core.allows(call, Operation::Describe, Resource::TransactionalId(id))
            && (states.is_empty() || states.contains(&transaction.state.name()))
            && (ids.is_empty() || ids.contains(&transaction.producer_id))
            && (request.duration_filter < 0 || open_ms > request.duration_filter)
            && pattern.as_ref().is_none_or(|pattern| pattern.is_match(id))
    };
    let state = |(transactional_id, transaction): (&'a str, &'a Transaction)| TransactionState {
        transactional_id,
        producer_id: transaction.producer_id,
        transaction_state: transaction.state.name(),
        ..Default::default()
    };
    Ok(ListTransactionsResponse {
        unknown_state_filters: request
            .state_filters
            .iter()
            .copied()
            .filter(|name| !transactions::TransactionState::is_name(name))
            .collect(),
        transaction_states: transactions.into_iter().filter(is_wanted).map(state).collect(),
        ..Default::default()
    })
}
