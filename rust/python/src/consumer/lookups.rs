//! Lookups of offsets, as futures: a thread waits for them, and an event loop awaits them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_client::consumer::{Consumer, Found};
use monedula_client::error::ClientError;
use monedula_engine::TopicPartition;
use pyo3::prelude::*;

use super::ConsumerCore;
use crate::consumer_values::{PyPartition, topic_partition};
use crate::seconds::Seconds;

impl ConsumerCore {
    pub(super) fn timeout(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Duration> {
        match timeout {
            Some(timeout) => timeout.duration(py),
            None => Ok(self.consumer.get()?.config().default_api_timeout),
        }
    }

    pub(super) fn listing(
        &self,
        py: Python<'_>,
        kind: &str,
        partitions: Option<Vec<PyPartition>>,
        timeout: Option<Seconds>,
    ) -> PyResult<impl Future<Output = Result<BTreeMap<TopicPartition, Option<Found>>, ClientError>> + Send + use<>>
    {
        let (consumer, timeout) = (self.consumer.get()?.clone(), self.timeout(py, timeout)?);
        let given: Option<Vec<TopicPartition>> =
            partitions.map(|partitions| partitions.into_iter().map(topic_partition).collect());
        let beginning = kind == "beginning";
        Ok(async move {
            let partitions = match given {
                Some(partitions) => partitions,
                None => all_assigned(&consumer, timeout).await?,
            };
            match beginning {
                true => consumer.beginning_offsets(partitions, timeout).await,
                false => consumer.end_offsets(partitions, timeout).await,
            }
        })
    }

    pub(super) fn by_time(
        &self,
        py: Python<'_>,
        times: Vec<(PyPartition, i64)>,
        timeout: Option<Seconds>,
    ) -> PyResult<impl Future<Output = Result<BTreeMap<TopicPartition, Option<Found>>, ClientError>> + Send + use<>>
    {
        let timeout = self.timeout(py, timeout)?;
        let times = times.into_iter().map(|(partition, timestamp_ms)| (topic_partition(partition), timestamp_ms));
        Ok(self.consumer.get()?.offsets_for_times(times.collect(), timeout))
    }
}

/// The assigned partitions, including those of topics assigned as a whole that are not known yet.
async fn all_assigned(consumer: &Consumer, timeout: Duration) -> Result<Vec<TopicPartition>, ClientError> {
    // Topics first: a topic whose partitions become known in between is then in both lists instead of in neither.
    let topics: Vec<String> = consumer.unresolved().iter().map(ToString::to_string).collect();
    let mut partitions: BTreeSet<TopicPartition> = consumer.assignment().into_iter().collect();
    if !topics.is_empty() {
        partitions.extend(consumer.partitions_of(topics, timeout).await?);
    }
    Ok(partitions.into_iter().collect())
}
