//! MetricsData of OpenTelemetry's protocol 1 as protobuf, as far as clients push it: gauges and sums of single numbers.
//!
//! Written by hand: it takes six kinds of messages, and only their encoding.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Double(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// The value of now.
    Gauge,
    /// A sum that only grows; `is_delta` if it counts from the push before.
    Sum { is_delta: bool },
}

/// A metric with one data point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric<'a> {
    pub(crate) name: &'a str,
    /// In the notation of UCUM; empty where the name says it.
    pub(crate) unit: &'a str,
    pub(crate) attributes: &'a [(String, String)],
    pub(crate) kind: MetricKind,
    pub(crate) value: Number,
}

/// Beginning and end of the figures' time, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) start_unix_nano: u64,
    pub(crate) end_unix_nano: u64,
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;

/// The numbers of fields and enums in opentelemetry-proto 1.x.
mod field {
    pub(super) const RESOURCE_METRICS: u8 = 1; // MetricsData
    pub(super) const RESOURCE: u8 = 1; // ResourceMetrics
    pub(super) const SCOPE_METRICS: u8 = 2;
    pub(super) const RESOURCE_ATTRIBUTES: u8 = 1; // Resource
    pub(super) const KEY: u8 = 1; // KeyValue
    pub(super) const VALUE: u8 = 2;
    pub(super) const STRING_VALUE: u8 = 1; // AnyValue
    pub(super) const METRICS: u8 = 2; // ScopeMetrics
    pub(super) const NAME: u8 = 1; // Metric
    pub(super) const UNIT: u8 = 3;
    pub(super) const GAUGE: u8 = 5;
    pub(super) const SUM: u8 = 7;
    pub(super) const DATA_POINTS: u8 = 1; // Gauge and Sum
    pub(super) const AGGREGATION_TEMPORALITY: u8 = 2;
    pub(super) const IS_MONOTONIC: u8 = 3;
    pub(super) const START_TIME_UNIX_NANO: u8 = 2; // NumberDataPoint
    pub(super) const TIME_UNIX_NANO: u8 = 3;
    pub(super) const AS_DOUBLE: u8 = 4;
    pub(super) const AS_INT: u8 = 6;
    pub(super) const POINT_ATTRIBUTES: u8 = 7;
    pub(super) const DELTA: u64 = 1; // AggregationTemporality
    pub(super) const CUMULATIVE: u64 = 2;
}

/// Encodes metrics of one client, which `attributes` describe.
pub(crate) fn metrics_data(attributes: &[(&str, String)], metrics: &[Metric<'_>], period: Period) -> Vec<u8> {
    let mut data = Encoder::default();
    data.message(field::RESOURCE_METRICS, |resource_metrics| {
        resource_metrics.message(field::RESOURCE, |resource| {
            attributes.iter().for_each(|(key, value)| resource.key_value(field::RESOURCE_ATTRIBUTES, key, value));
        });
        resource_metrics.message(field::SCOPE_METRICS, |scope_metrics| {
            for metric in metrics {
                scope_metrics.message(field::METRICS, |encoder| encoder.metric(metric, period));
            }
        });
    });
    data.0
}

#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn metric(&mut self, metric: &Metric<'_>, period: Period) {
        self.bytes(field::NAME, metric.name.as_bytes());
        if !metric.unit.is_empty() {
            self.bytes(field::UNIT, metric.unit.as_bytes());
        }
        match metric.kind {
            MetricKind::Gauge => self.message(field::GAUGE, |gauge| {
                gauge.message(field::DATA_POINTS, |point| point.data_point(metric, period));
            }),
            MetricKind::Sum { is_delta } => self.message(field::SUM, |sum| {
                sum.message(field::DATA_POINTS, |point| point.data_point(metric, period));
                let temporality = if is_delta { field::DELTA } else { field::CUMULATIVE };
                sum.varint(field::AGGREGATION_TEMPORALITY, temporality);
                sum.varint(field::IS_MONOTONIC, 1);
            }),
        }
    }

    fn data_point(&mut self, metric: &Metric<'_>, period: Period) {
        self.fixed64(field::START_TIME_UNIX_NANO, period.start_unix_nano);
        self.fixed64(field::TIME_UNIX_NANO, period.end_unix_nano);
        match metric.value {
            Number::Double(value) => self.fixed64(field::AS_DOUBLE, value.to_bits()),
            Number::Int(value) => self.fixed64(field::AS_INT, value as u64),
        }
        metric.attributes.iter().for_each(|(key, value)| self.key_value(field::POINT_ATTRIBUTES, key, value));
    }

    fn key_value(&mut self, number: u8, key: &str, value: &str) {
        self.message(number, |pair| {
            pair.bytes(field::KEY, key.as_bytes());
            pair.message(field::VALUE, |any| any.bytes(field::STRING_VALUE, value.as_bytes()));
        });
    }

    fn message(&mut self, number: u8, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.0);
    }

    fn bytes(&mut self, number: u8, bytes: &[u8]) {
        self.tag(number, BYTES);
        self.raw_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn fixed64(&mut self, number: u8, value: u64) {
        self.tag(number, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn varint(&mut self, number: u8, value: u64) {
        self.tag(number, VARINT);
        self.raw_varint(value);
    }

    fn tag(&mut self, number: u8, wire_type: u8) {
        // Every number in use is below 16, so a tag is one byte.
        self.0.push(number << 3 | wire_type);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Whole payloads are judged by OpenTelemetry's own decoder, in tests/observability/test_push.py.
    #[test]
    fn a_sum_is_encoded_as_protobuf_says() {
        let metric = Metric {
            name: "a",
            unit: "",
            attributes: &[],
            kind: MetricKind::Sum { is_delta: true },
            value: Number::Int(300),
        };
        let encoded = metrics_data(&[("k", "v".into())], &[metric], Period { start_unix_nano: 1, end_unix_nano: 2 });
        #[rustfmt::skip]
        let expected: Vec<u8> = [
            &[0x0a, 54][..], // resource_metrics
            &[0x0a, 10, 0x0a, 8, 0x0a, 1, b'k', 0x12, 3, 0x0a, 1, b'v'], // resource
            &[0x12, 40, 0x12, 38], // scope_metrics, metrics
            &[0x0a, 1, b'a', 0x3a, 33], // name, sum
            &[0x0a, 27, 0x11], &1u64.to_le_bytes(), &[0x19], &2u64.to_le_bytes(), &[0x31], &300u64.to_le_bytes(),
            &[0x10, 1, 0x18, 1], // delta, monotonic
        ].concat();
        assert_eq!(encoded, expected);
    }
}
