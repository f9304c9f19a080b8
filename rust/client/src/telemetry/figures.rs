//! The figures that clients push, under the names of Kafka's own client (KIP-714), and those of the last push.
//!
//! Only figures of the same meaning as in Kafka's client have a name of Kafka's. Times are in milliseconds, as there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::otlp::{Metric, MetricKind, Number};
use super::registered_metrics::{MetricId, Reading, RegisteredKind};

/// A figure of a client, counted since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// The value of now.
    Gauge { name: &'static str, value: f64 },
    /// A count, and its rate per second if that has a name.
    Count { total: &'static str, rate: Option<&'static str>, count: u64 },
    /// Duration of an operation each time: the average, and the sum if that has a name.
    Latency {
        average: &'static str,
        total: Option<&'static str>,
        /// Number of operations.
        count: u64,
        sum: Duration,
    },
}

/// Counts at the last push that a broker accepted, from which rates, averages and deltas are computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    counts: BTreeMap<&'static str, (u64, Duration)>,
    /// The values of registered counters.
    registered: BTreeMap<MetricId, f64>,
}

impl Window {
    /// The metrics for a push, `elapsed` after the last one. A rate or an average is that of this time; an average of
    /// nothing is left out.
    pub(crate) fn metrics(&self, figures: &[Figure], elapsed: Duration, is_delta: bool) -> Vec<Metric<'static>> {
        let mut metrics = Vec::new();
        for figure in figures {
            match *figure {
                Figure::Gauge { name, value } => metrics.push(gauge(name, value)),
                Figure::Count { total, rate, count } => {
                    let (before, _) = self.counts.get(total).copied().unwrap_or_default();
                    let more = count.saturating_sub(before);
                    let value = Number::Int(i64::try_from(if is_delta { more } else { count }).unwrap_or(i64::MAX));
                    metrics.push(total_of(total, is_delta, value));
                    if let Some(name) = rate.filter(|_| !elapsed.is_zero()) {
                        metrics.push(gauge(name, more as f64 / elapsed.as_secs_f64()));
                    }
                }
                Figure::Latency { average, total, count, sum } => {
                    let (before, sum_before) = self.counts.get(average).copied().unwrap_or_default();
                    let (more, took) = (count.saturating_sub(before), sum.saturating_sub(sum_before));
                    if more > 0 {
                        metrics.push(gauge(average, millis(took) / more as f64));
                    }
                    if let Some(name) = total {
                        let value = Number::Double(millis(if is_delta { took } else { sum }));
                        metrics.push(total_of(name, is_delta, value));
                    }
                }
            }
        }
        metrics
    }

    /// The metrics of registered ones for a push. A counter below its value of the last push has begun anew.
    pub(super) fn registered_metrics<'r>(&self, readings: &'r [Reading], is_delta: bool) -> Vec<Metric<'r>> {
        let metric = |reading: &'r Reading| {
            let id = &reading.metric.id;
            let before = self.registered.get(id).copied().filter(|&before| before <= reading.value).unwrap_or_default();
            let (kind, value) = match reading.metric.kind {
                RegisteredKind::Gauge => (MetricKind::Gauge, reading.value),
                RegisteredKind::Counter if is_delta => (MetricKind::Sum { is_delta }, reading.value - before),
                RegisteredKind::Counter => (MetricKind::Sum { is_delta }, reading.value),
            };
            let value = Number::Double(value);
            Metric { name: &id.name, unit: &reading.metric.unit, attributes: &id.attributes, kind, value }
        };
        readings.iter().map(metric).collect()
    }

    /// Takes the figures of a push that was accepted as those from which the next one counts.
    pub(super) fn accepted(&mut self, figures: &[Figure], readings: &[Reading]) {
        for reading in readings.iter().filter(|reading| reading.metric.kind == RegisteredKind::Counter) {
            self.registered.insert(reading.metric.id.clone(), reading.value);
        }
        for figure in figures {
            match *figure {
                Figure::Gauge { .. } => {}
                Figure::Count { total, count, .. } => _ = self.counts.insert(total, (count, Duration::ZERO)),
                Figure::Latency { average, count, sum, .. } => _ = self.counts.insert(average, (count, sum)),
            }
        }
    }
}

fn gauge(name: &'static str, value: f64) -> Metric<'static> {
    Metric { name, unit: "", attributes: &[], kind: MetricKind::Gauge, value: Number::Double(value) }
}

fn total_of(name: &'static str, is_delta: bool, value: Number) -> Metric<'static> {
    Metric { name, unit: "", attributes: &[], kind: MetricKind::Sum { is_delta }, value }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::registered_metrics::RegisteredMetric;
    use super::*;

    fn count(count: u64) -> Figure {
        Figure::Count { total: "total", rate: Some("rate"), count }
    }

    fn latency(count: u64, millis: u64) -> Figure {
        Figure::Latency { average: "avg", total: Some("sum"), count, sum: Duration::from_millis(millis) }
    }

    fn values<'m>(metrics: &[Metric<'m>]) -> Vec<(&'m str, f64)> {
        let number = |metric: &Metric<'_>| match metric.value {
            Number::Int(value) => value as f64,
            Number::Double(value) => value,
        };
        metrics.iter().map(|metric| (metric.name, number(metric))).collect()
    }

    #[test]
    fn rates_and_averages_are_of_the_time_since_the_last_push() {
        let mut window = Window::default();
        window.accepted(&[count(100), latency(10, 1000)], &[]);
        let metrics = window.metrics(&[count(150), latency(12, 1030)], Duration::from_secs(10), false);
        assert_eq!(values(&metrics), [("total", 150.0), ("rate", 5.0), ("avg", 15.0), ("sum", 1030.0)]);
        window.accepted(&[count(150), latency(12, 1030)], &[]);
        let metrics = window.metrics(&[count(150), latency(12, 1030)], Duration::from_secs(10), false);
        assert_eq!(values(&metrics), [("total", 150.0), ("rate", 0.0), ("sum", 1030.0)], "nothing happened since");
    }

    #[test]
    fn a_delta_is_not_lost_with_a_push_that_failed() {
        let mut window = Window::default();
        window.accepted(&[count(100), latency(10, 1000)], &[]);
        for (now, more) in [(150, 50.0), (170, 70.0)] {
            let metrics = window.metrics(&[count(now), latency(10, 1000)], Duration::from_secs(10), true);
            assert_eq!(values(&metrics)[0], ("total", more));
            assert_eq!(metrics[0].kind, MetricKind::Sum { is_delta: true });
        }
    }

    #[test]
    fn a_registered_counter_counts_from_the_last_push_and_anew_if_it_fell() {
        let id = MetricId { name: "jobs".into(), attributes: vec![("queue".into(), "a".into())] };
        let reading = |kind, value| Reading {
            metric: Arc::new(RegisteredMetric::new(id.clone(), kind, "{job}".into(), Box::new(|| Ok(0.0)))),
            value,
        };
        let mut window = Window::default();
        for (value, delta) in [(5.0, 5.0), (7.0, 2.0), (3.0, 3.0)] {
            let readings = [reading(RegisteredKind::Counter, value), reading(RegisteredKind::Gauge, value)];
            let metrics = window.registered_metrics(&readings, true);
            assert_eq!(values(&metrics), [("jobs", delta), ("jobs", value)]);
            assert_eq!((metrics[0].unit, metrics[0].attributes), ("{job}", &id.attributes[..]));
            assert_eq!(values(&window.registered_metrics(&readings, false)), [("jobs", value), ("jobs", value)]);
            window.accepted(&[], &readings);
        }
    }
}
