//! GetTelemetrySubscriptions, version 0: tells a client which metrics to push (KIP-714). Offered only by a broker that
//! was started with `client_metrics`: as in Kafka, where a broker without a receiver of metrics does not offer it.
//!
//! Not implemented: the selectors of `match` by software and source port, which match every client.

use monedula_protocol::messages::get_telemetry_subscriptions::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
};

use super::Handled;
use super::push_telemetry::{ACCEPTED, MAX_BYTES};
use crate::cluster::MetricsClient;
use crate::core::Core;
use crate::request::Call;

type Request<'a> = GetTelemetrySubscriptionsRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    let id = match request.client_instance_id.is_zero() {
        true => core.draw.uuid(),
        false => request.client_instance_id,
    };
    let client = MetricsClient { id, client_id: call.client_id, host: &call.origin.host };
    let asked = core.client_metrics.ask(client, core.now_ms)?;
    Ok(call.answer::<Request<'_>>(&GetTelemetrySubscriptionsResponse {
        client_instance_id: id,
        subscription_id: asked.subscription_id,
        accepted_compression_types: ACCEPTED.iter().map(|codec| codec.id() as i8).collect(),
        push_interval_ms: asked.interval_ms,
        telemetry_max_bytes: MAX_BYTES,
        delta_temporality: true,
        requested_metrics: asked.metrics.iter().map(String::as_str).collect(),
        ..Default::default()
    }))
}
