//! GetTelemetrySubscriptions, API key 71, version 0, flexible from 0 (KIP-714).

use crate::types::Uuid;
use crate::wire::api;

api! {
    GetTelemetrySubscriptions, versions 0..=0, flexible 0..;

    /// Asks which metrics the broker wants from this client.
    request GetTelemetrySubscriptionsRequest<'a> {
        /// The id that the broker gave this client; zero in the first request.
        client_instance_id: Uuid, 0..;
    }

    /// The metrics that the broker wants.
    response GetTelemetrySubscriptionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        /// The id of this client, drawn by the broker if the request had none.
        client_instance_id: Uuid, 0..;
        /// Names the subscription; pushes carry it.
        subscription_id: i32, 0..;
        /// The codes of the compression types that the broker accepts, the preferred one first.
        accepted_compression_types: Vec<i8>, 0..;
        /// The time between two pushes, in milliseconds.
        push_interval_ms: i32, 0..;
        /// The most bytes of a push.
        telemetry_max_bytes: i32, 0..;
        /// True for sums since the last push (delta), false for sums since the client's start (cumulative).
        delta_temporality: bool, 0..;
        /// Prefixes of the names of the metrics; an empty one stands for all metrics, and no prefix for none.
        requested_metrics: Vec<&'a str>, 0..;
    }
}
