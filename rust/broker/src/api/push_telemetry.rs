//! PushTelemetry, version 0: takes a client's metrics (KIP-714) and keeps them for tests. Offered only by a broker that
//! was started with `client_metrics`.
//!
//! Not implemented: nothing reads the metrics here; whether they are MetricsData of OpenTelemetry is for the test to
//! say.

use monedula_protocol::compression::{Compression, Decompressor};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::push_telemetry::{PushTelemetryRequest, PushTelemetryResponse};

use super::Handled;
use crate::cluster::{MetricsClient, Push};
use crate::core::Core;
use crate::request::Call;

type Request<'a> = PushTelemetryRequest<'a>;

/// The codecs that Kafka accepts, in its order.
pub(super) const ACCEPTED: [Compression; 4] =
    [Compression::Zstd, Compression::Lz4, Compression::Gzip, Compression::Snappy];

/// Kafka's default of `telemetry.max.bytes`.
pub(super) const MAX_BYTES: i32 = 1 << 20;

/// The limit on decompressed metrics that are kept of one push.
const MAX_DECOMPRESSED_BYTES: usize = 16 << 20;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    let outcome = take(core, call, request);
    core.client_metrics.note(request.client_instance_id, outcome.err());
    outcome.map(|()| call.answer::<Request<'_>>(&PushTelemetryResponse::default()))
}

fn take(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Result<(), ErrorCode> {
    let id = request.client_instance_id;
    if id.is_zero() {
        return Err(ErrorCode::InvalidRequest);
    }
    let client = MetricsClient { id, client_id: call.client_id, host: &call.origin.host };
    core.client_metrics.check_push(client, request.subscription_id, request.terminating, core.now_ms)?;
    let codec = u8::try_from(request.compression_type).ok().and_then(Compression::from_id);
    let codec = codec.ok_or(ErrorCode::UnsupportedCompressionType)?;
    if request.metrics.len() > MAX_BYTES as usize {
        return Err(ErrorCode::TelemetryTooLarge);
    }
    let metrics = Decompressor::new().decompress_to_vec(codec, request.metrics, MAX_DECOMPRESSED_BYTES);
    let push = Push {
        node: call.node,
        client_id: call.client_id.to_owned(),
        client_instance_id: id,
        subscription_id: request.subscription_id,
        terminating: request.terminating,
        compression: codec.name(),
        metrics: metrics.map_err(|_| ErrorCode::InvalidRecord)?,
    };
    core.client_metrics.take(push);
    Ok(())
}
