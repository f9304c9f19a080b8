//! ListOffsets.

use monedula_protocol::records::{BatchEncoder, NewRecord};

use crate::helpers::*;
use crate::support::START_MS;

// req: S101
#[test]
fn the_ends_of_a_log_and_what_lies_between_them() {
    let mut world = world();
    produce_values(&mut world, &["a", "b"]);
    produce_values(&mut world, &["c"]);
    assert_eq!(list_offset(&mut world, -1, 0), (0, 3, -1));
    assert_eq!(list_offset(&mut world, -2, 0), (0, 0, -1));
    assert_eq!(values(&fetch(&mut world, 0)), ["a", "b", "c"]);
}

#[test]
fn the_first_record_at_or_after_a_time_is_found() {
    let mut world = world();
    let times = [10, 5, 20, 20, 7, 30];
    for pair in times.chunks(2) {
        let mut encoder = BatchEncoder::new();
        for &time in pair {
            encoder.append(NewRecord { timestamp_ms: START_MS + time, value: Some(b"v"), ..NewRecord::default() });
        }
        assert_eq!(produce(&mut world, &encode(&encoder)).error_code, 0);
    }
    for (time, offset, found) in [(0, 0, 10), (10, 0, 10), (11, 2, 20), (20, 2, 20), (21, 5, 30), (30, 5, 30)] {
        assert_eq!(list_offset(&mut world, START_MS + time, 0), (0, offset, START_MS + found), "{time}");
    }
    assert_eq!(list_offset(&mut world, START_MS + 31, 0), (0, -1, -1));
    // The offset of the record with the largest timestamp.
    assert_eq!(list_offset(&mut world, -3, 0), (0, 5, START_MS + 30));
    // There is no remote storage.
    assert_eq!(list_offset(&mut world, -4, 0), (0, 0, -1));
    assert_eq!(list_offset(&mut world, -5, 0), (0, -1, -1));
    assert_eq!(list_offset(&mut world, -7, 0).0, 35);
}
