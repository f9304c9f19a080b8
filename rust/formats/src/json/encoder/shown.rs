//! Dates, times and lengths of time for a screen, as Python writes them: in ISO 8601, lengths in seconds.

use std::io::Write;

use arrow_array::{Array as _, ArrayRef};
use arrow_schema::DataType;

use super::scalar;
use crate::json::time::write_date;
use crate::writing::{Times, Written, units};

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Days since 1970 in the years 1 to 9999. Others are written as numbers: Python has no dates for them.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// A column of dates, times or lengths of time.
#[derive(Debug)]
pub(super) struct Time<'a> {
    ticks: Times<'a>,
    kind: TimeKind,
    /// Ticks a second.
    per_second: i64,
}

#[derive(Debug, Clone, Copy)]
enum TimeKind {
    Date,
    /// True for those in a zone, which is UTC.
    Timestamp(bool),
    OfDay,
    Length,
}

impl<'a> Time<'a> {
    pub(super) fn of(array: &'a ArrayRef) -> Option<Self> {
        let (ticks, kind, per_second) = match array.data_type() {
            DataType::Date32 | DataType::Date64 => (Times::date(array)?, TimeKind::Date, 1),
            DataType::Timestamp(unit, zone) => {
                let is_zoned = zone.is_some();
                (Times::timestamp(array, units(*unit), is_zoned)?, TimeKind::Timestamp(is_zoned), units(*unit))
            }
            DataType::Time32(unit) | DataType::Time64(unit) => {
                (Times::time(array, units(*unit))?, TimeKind::OfDay, units(*unit))
            }
            DataType::Duration(unit) => (Times::duration(array, units(*unit))?, TimeKind::Length, units(*unit)),
            _ => return None,
        };
        Some(Self { ticks, kind, per_second })
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Written {
        let tick = self.ticks.get(row)?;
        let nano = tick.rem_euclid(self.per_second) * (NANOS / self.per_second);
        let second = tick.div_euclid(self.per_second);
        match self.kind {
            TimeKind::Date if DAYS.contains(&tick) => scalar::quoted(|out| write_date(tick, out), out),
            // Timestamps in nanoseconds are written as numbers: Python's datetime has none.
            TimeKind::Timestamp(is_zoned) if DAYS.contains(&second.div_euclid(DAY)) && self.per_second < NANOS => {
                scalar::quoted(
                    |out| {
                        write_date(second.div_euclid(DAY), out);
                        out.push(b'T');
                        write_clock(second.rem_euclid(DAY), nano, out);
                        out.extend_from_slice(if is_zoned { b"Z" } else { b"" });
                    },
                    out,
                );
            }
            TimeKind::Date | TimeKind::Timestamp(_) => scalar::int(tick, out),
            TimeKind::OfDay => scalar::quoted(|out| write_clock(second, nano, out), out),
            TimeKind::Length => scalar::quoted(|out| self.write_length(tick, out), out),
        }
        Ok(())
    }

    fn write_length(&self, ticks: i64, out: &mut Vec<u8>) {
        let (second, rest) = (ticks / self.per_second, ticks % self.per_second);
        let sign = if ticks < 0 { "-" } else { "" };
        // Writing into memory does not fail.
        let _ = write!(out, "{sign}{}", second.unsigned_abs());
        write_fraction(rest.abs() * (NANOS / self.per_second), out);
        out.push(b's');
    }
}

fn write_clock(second: i64, nano: i64, out: &mut Vec<u8>) {
    let _ = write!(out, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    write_fraction(nano, out);
}

/// Six digits behind the point, or nine where there are so many; none of a whole second.
fn write_fraction(nano: i64, out: &mut Vec<u8>) {
    let _ = match nano {
        0 => return,
        nano if nano % 1000 == 0 => write!(out, ".{:06}", nano / 1000),
        nano => write!(out, ".{nano:09}"),
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, Date32Array, DurationMicrosecondArray, Float64Array, StringArray, Time64MicrosecondArray,
        TimestampMicrosecondArray, TimestampNanosecondArray,
    };

    use crate::json::JsonEncoder;

    fn shown(column: impl arrow_array::Array + 'static) -> Vec<String> {
        let column: ArrayRef = Arc::new(column);
        let texts = JsonEncoder::shown().encode(&column).expect("texts");
        texts.iter().map(|text| String::from_utf8(text.unwrap_or(b"-").to_vec()).expect("UTF-8")).collect()
    }

    #[test]
    fn times_are_those_of_iso_8601_and_numbers_beyond_its_years() {
        assert_eq!(shown(Date32Array::from(vec![Some(0), None, Some(2_932_897)])), ["\"1970-01-01\"", "-", "2932897"]);
        let micros = TimestampMicrosecondArray::from(vec![-1, 1_000_000, i64::MAX]);
        let texts = shown(micros.clone());
        assert_eq!(texts, ["\"1969-12-31T23:59:59.999999\"", "\"1970-01-01T00:00:01\"", "9223372036854775807"]);
        assert_eq!(shown(micros.with_timezone("UTC"))[1], "\"1970-01-01T00:00:01Z\"");
        assert_eq!(shown(TimestampNanosecondArray::from(vec![5])), ["5"]);
        assert_eq!(shown(Time64MicrosecondArray::from(vec![3_720_000_000])), ["\"01:02:00\""]);
        let lengths = DurationMicrosecondArray::from(vec![-1_000_005, 86_400_000_000, i64::MIN]);
        assert_eq!(shown(lengths), ["\"-1.000005s\"", "\"86400s\"", "\"-9223372036854.775808s\""]);
    }

    #[test]
    fn values_need_not_be_objects() {
        assert_eq!(shown(StringArray::from(vec!["a\n"])), ["\"a\\n\""]);
        assert_eq!(shown(Float64Array::from(vec![f64::NAN, 1e300])), ["\"NaN\"", "1.0E300"]);
    }
}
