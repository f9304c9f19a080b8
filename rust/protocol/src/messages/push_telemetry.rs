//! PushTelemetry, API key 72, version 0, flexible from 0 (KIP-714).

use crate::types::Uuid;
use crate::wire::api;

api! {
    PushTelemetry, versions 0..=0, flexible 0..;

    /// Sends metrics of this client.
    request PushTelemetryRequest<'a> {
        /// The id that the broker gave this client.
        client_instance_id: Uuid, 0..;
        /// The subscription that the metrics are for.
        subscription_id: i32, 0..;
        /// True for the client's last push.
        terminating: bool, 0..;
        /// The code of the compression type of the metrics.
        compression_type: i8, 0..;
        /// The metrics as MetricsData of OpenTelemetry's protocol 1, compressed.
        metrics: &'a [u8], 0..;
    }

    /// The outcome of a push.
    response PushTelemetryResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
    }
}
