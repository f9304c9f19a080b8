//! Producers on a cluster, and reading what its logs hold.

use std::time::{Duration, Instant};

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use monedula_broker::server::FaultHandle;
use monedula_broker::{Effect, Selector};
use monedula_client::config::ClientConfig;
use monedula_client::consumer::{BatchLimits, Consumer};
use monedula_client::producer::{Delivered, Producer, ProducerConfig, Record, RecordFuture, Refused};
use monedula_columns::{ColumnBatch, ColumnSet};
use monedula_engine::TopicPartition;
use monedula_engine::fetch::Start;

use crate::cluster::beside;
pub(crate) use crate::cluster::{PATIENCE, World};

const SLICE: Duration = Duration::from_millis(100);

impl World {
    pub(crate) fn producer(&self, settings: &[(&str, &str)]) -> Producer {
        let servers = self.servers();
        let usual = [
            ("bootstrap.servers", servers.as_str()),
            ("retry.backoff.ms", "10"),
            ("topic.metadata.propagation.max.ms", "1000"),
        ];
        let all = beside(&usual, settings);
        Producer::new(ProducerConfig::parse(all).expect("settings"), self.runtime.handle(), 7)
    }

    pub(crate) fn fault(&self, apis: &[&str], what: Effect, count: Option<u64>) -> FaultHandle<'_> {
        let when = Selector { apis: apis.iter().map(ToString::to_string).collect(), ..Selector::default() };
        self.fault_when(when, what, count)
    }

    /// A fault of requests that name this topic.
    pub(crate) fn fault_of_topic(&self, api: &str, topic: &str, what: Effect) -> FaultHandle<'_> {
        let when = Selector { apis: vec![api.to_owned()], topic: Some(topic.to_owned()), ..Selector::default() };
        self.fault_when(when, what, None)
    }

    /// Keys and values of the first `count` records of a partition, as text.
    pub(crate) fn read(&self, topic: &str, partition: i32, count: usize) -> Vec<(Option<String>, Option<String>)> {
        let batches = self.batches(topic, partition, count, ColumnSet::default());
        let pairs = |batch| column(batch, "key").into_iter().zip(column(batch, "value"));
        batches.iter().flat_map(pairs).collect()
    }

    /// The headers of the first `count` records of partition 0, as text.
    pub(crate) fn headers(&self, topic: &str, count: usize) -> Vec<Vec<(String, Option<String>)>> {
        let batches = self.batches(topic, 0, count, ColumnSet::HEADERS);
        batches.iter().flat_map(headers).collect()
    }

    fn batches(&self, topic: &str, partition: i32, count: usize, columns: ColumnSet) -> Vec<ColumnBatch> {
        let servers = self.broker.addresses()[0].1.to_string();
        let config = ClientConfig::parse([("bootstrap.servers", servers.as_str())]).expect("settings");
        let consumer = Consumer::new(config, columns, self.runtime.handle(), 7);
        let place = TopicPartition::new(topic, partition);
        consumer.assign(vec![(place, Start::Earliest, None)]).expect("assigns");
        let want = BatchLimits { max_rows: 100_000, max_bytes: 64 << 20, max_wait: Duration::ZERO, deadline: None };
        let (mut batches, mut rows, deadline) = (Vec::new(), 0, Instant::now() + PATIENCE);
        while rows < count {
            assert!(Instant::now() < deadline, "{rows} of {count} records");
            let Some(batch) = consumer.next_batch(&want, Instant::now() + SLICE).expect("reads") else { continue };
            rows += batch.record_batch.num_rows();
            batches.push(batch);
        }
        batches
    }

    pub(crate) fn flush(&self, producer: &Producer) {
        let flush = producer.flush();
        let flushed = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, flush).await });
        flushed.expect("in time").expect("flushes");
    }
}

fn column(batch: &ColumnBatch, name: &str) -> Vec<Option<String>> {
    let column = batch.record_batch.column_by_name(name).expect("a column").as_binary::<i32>();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    column.iter().map(|bytes| bytes.map(text)).collect()
}

fn headers(batch: &ColumnBatch) -> Vec<Vec<(String, Option<String>)>> {
    let lists = batch.record_batch.column_by_name("headers").expect("headers").as_list::<i32>();
    let pairs = |list: Option<ArrayRef>| {
        let Some(list) = list else { return Vec::new() };
        let (keys, values) = (list.as_struct().column(0).as_string::<i32>(), list.as_struct().column(1));
        let values = values.as_binary::<i32>().iter().map(|value| Some(String::from_utf8_lossy(value?).into_owned()));
        keys.iter().map(|key| key.unwrap_or_default().to_owned()).zip(values).collect()
    };
    lists.iter().map(pairs).collect()
}

/// The values of a batch, as text.
pub(crate) fn values(batch: &ColumnBatch) -> Vec<String> {
    column(batch, "value").into_iter().flatten().collect()
}

/// Sends a record with this key and value; waits for room if there is none.
pub(crate) fn send(producer: &Producer, topic: &str, key: Option<&str>, value: &str) -> RecordFuture {
    let record = Record { topic, key: key.map(str::as_bytes), value: Some(value.as_bytes()), ..Record::default() };
    loop {
        match producer.send(&record) {
            Ok(sent) => return sent,
            Err(Refused::Full { needed }) => {
                assert!(producer.wait_for_room(needed, Instant::now() + PATIENCE, None).expect("open"), "no room");
            }
            Err(Refused::Error(error)) => panic!("{error}"),
        }
    }
}

/// The partition and offset of a delivered record.
pub(crate) fn delivered(sent: &RecordFuture) -> Delivered {
    sent.wait(Instant::now() + PATIENCE).expect("in time").expect("delivered")
}

/// The error of a record that failed.
pub(crate) fn failure(sent: &RecordFuture) -> String {
    sent.wait(Instant::now() + PATIENCE).expect("in time").expect_err("fails").to_string()
}
