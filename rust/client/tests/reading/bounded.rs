//! Bounded reads, which end by position.

use std::time::{Duration, Instant};

use monedula_client::config::ClientConfig;
use monedula_client::consumer::BatchLimits;
use monedula_client::reader::{Ranges, Reader};
use monedula_columns::ColumnSet;

use crate::support::{PATIENCE, append_batch, cluster, partition};

#[test]
fn the_last_rows_of_a_read_do_not_wait_for_more() {
    let world = cluster(1, 1);
    append_batch(&world, 0, 100, 10);
    let config = ClientConfig::parse([("bootstrap.servers", world.servers().as_str())]).expect("settings");
    let mut reader = Reader::new(config, ColumnSet::default(), world.runtime.handle(), 7);
    reader.begin(Ranges::from([(partition(0), (5, 9))]), None).expect("begins");
    // A batch that waited for company would not come before the end of PATIENCE.
    let want = BatchLimits { max_rows: 100, max_bytes: 16 << 20, max_wait: Duration::from_secs(3600), deadline: None };
    let batch = reader.next_batch(&want, Instant::now() + PATIENCE).expect("reads").expect("not at its end");
    let batch = batch.expect("in time");
    assert_eq!((batch.offset_of(0), batch.record_batch.num_rows()), (Some(5), 4));
    assert!(reader.next_batch(&want, Instant::now() + PATIENCE).expect("reads").is_none());
}
