//! Dates and timestamps from texts, and to texts (`written.rs`): in the formats of Spark's casts, which are the default
//! of `from_json`, and by patterns.
//!
//! A time without a date is refused, since it would need the current date.

mod parsed;
mod pattern;
mod written;
mod zone;

pub use pattern::Pattern;
pub(crate) use written::{write_date, write_timestamp};
pub use zone::TimeZone;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Days since 1970: `[+-]yyyy[-[m]m[-[d]d[( |T)…]]]`, else a number of days.
pub(crate) fn date(text: &str) -> Option<i32> {
    written_date(trim(text))
        .or_else(|| without_gmt(text).and_then(|text| written_date(trim(&text))))
        .or_else(|| text.parse().ok())
}

fn written_date(text: &[u8]) -> Option<i32> {
    let (negative, text) = sign(text);
    let mut parts = DateScanner { bytes: text, at: 0 };
    let date = parts.date(negative, 7)?;
    let ended = matches!((date.given, text.get(parts.at)), (_, None) | (3, Some(b' ' | b'T')));
    if ended { i32::try_from(date.days).ok() } else { None }
}

/// Microseconds since 1970. `zone` applies to texts that name none; if `zone` is `None`, the timestamp is local, and a
/// text with a zone is refused.
pub(crate) fn timestamp(text: &str, zone: Option<&TimeZone>) -> Option<i64> {
    let read = |text: &str| written_timestamp(trim(text), zone);
    read(text).or_else(|| without_gmt(text).filter(|_| zone.is_some()).and_then(|text| read(&text)))
}

fn written_timestamp(text: &[u8], default_zone: Option<&TimeZone>) -> Option<i64> {
    let (negative, text) = sign(text);
    let mut parts = DateScanner { bytes: text, at: 0 };
    let date = parts.date(negative, 6)?;
    let (mut second, mut fraction, mut zone) = (0, 0, None);
    if parts.at < text.len() {
        if date.given != 3 || !parts.take(|byte| matches!(byte, b' ' | b'T')) {
            return None;
        }
        (second, fraction) = parts.time()?;
        zone = text.get(parts.at..).filter(|rest| !rest.is_empty());
    }
    match zone {
        Some(_) if default_zone.is_none() => None,
        Some(zone) => {
            let zone = std::str::from_utf8(trim(std::str::from_utf8(zone).ok()?)).ok()?;
            micros(date, second, fraction, Some(&TimeZone::named(zone)?))
        }
        None => micros(date, second, fraction, default_zone),
    }
}

/// Microseconds since 1970 of a date and a second of that day in a zone, or local.
fn micros(date: Date, second: i64, fraction: i64, zone: Option<&TimeZone>) -> Option<i64> {
    let offset = zone.map_or(0, |zone| zone.offset_at(date.parts, second));
    let seconds = i128::from(date.days * SECONDS_PER_DAY + second - offset);
    i64::try_from(seconds * i128::from(MICROS_PER_SECOND) + i128::from(fraction)).ok()
}

#[derive(Clone, Copy)]
struct Date {
    days: i64,
    /// Year, month and day.
    parts: (i64, i64, i64),
    /// Number of parts given, of year, month and day.
    given: usize,
}

impl Date {
    fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        Some(Self { days: days_of(year, month, day)?, parts: (year, month, day), given: 3 })
    }

    fn day_of_year(&self) -> Option<i64> {
        Some(self.days - days_of(self.parts.0, 1, 1)? + 1)
    }
}

struct DateScanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl DateScanner<'_> {
    fn take(&mut self, is: impl Fn(u8) -> bool) -> bool {
        let found = self.bytes.get(self.at).is_some_and(|byte| is(*byte));
        self.at += usize::from(found);
        found
    }

    /// Reads a number whose count of digits is in this range.
    fn number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
        let (start, mut value) = (self.at, 0);
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            if self.at - start == *digits.end() {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            self.at += 1;
        }
        digits.contains(&(self.at - start)).then_some(value)
    }

    fn date(&mut self, negative: bool, year_digits: usize) -> Option<Date> {
        let year = self.number(4..=year_digits)? * if negative { -1 } else { 1 };
        let (mut month, mut day, mut given) = (1, 1, 1);
        if self.take(|byte| byte == b'-') {
            (month, given) = (self.number(1..=2)?, 2);
            if self.take(|byte| byte == b'-') {
                (day, given) = (self.number(1..=2)?, 3);
            }
        }
        Some(Date { given, ..Date::new(year, month, day)? })
    }

    /// Reads `[h]h[:[m]m[:[s]s[.fraction]]]` as seconds and microseconds. Text may follow only after the seconds.
    fn time(&mut self) -> Option<(i64, i64)> {
        let hours = self.number(1..=2)?;
        let (mut minutes, mut seconds, mut micros) = (0, 0, 0);
        let mut complete = false;
        if self.take(|byte| byte == b':') {
            minutes = self.number(1..=2)?;
            if self.take(|byte| byte == b':') {
                seconds = self.number(1..=2)?;
                complete = true;
                if self.take(|byte| byte == b'.') {
                    micros = self.fraction();
                }
            }
        }
        let valid = hours < 24 && minutes < 60 && seconds < 60 && (complete || self.at == self.bytes.len());
        valid.then_some((hours * 3600 + minutes * 60 + seconds, micros))
    }

    /// Reads the digits behind the point, cut to microseconds.
    fn fraction(&mut self) -> i64 {
        let (mut micros, mut unit) = (0, MICROS_PER_SECOND / 10);
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            micros += i64::from(digit - b'0') * unit;
            unit /= 10;
            self.at += 1;
        }
        micros
    }
}

/// Trims white space and control characters.
fn trim(text: &str) -> &[u8] {
    text.trim_matches(|character: char| character <= ' ' || character == '\x7f').as_bytes()
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// Accepts the format of Spark 1, `2020-01-01T00:00:00GMT+01:00`, as Spark does.
fn without_gmt(text: &str) -> Option<String> {
    text.split_once("GMT").map(|(before, behind)| format!("{before}{behind}"))
}

/// Days since 1970 in the proleptic Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    const LENGTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let index = usize::try_from(month - 1).ok()?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = LENGTHS.get(index)? + i64::from(leap && month == 2);
    if !(1..=length).contains(&day) {
        return None;
    }
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let since_year_1 = past * 365 + leap_days + BEFORE[index] + i64::from(leap && month > 2) + day - 1;
    Some(since_year_1 - 719_162)
}

fn zone_offset(zone: &[u8]) -> Option<i64> {
    if zone == b"Z" {
        return Some(0);
    }
    let offset = [&b"UTC"[..], b"GMT", b"UT"].into_iter().find_map(|name| zone.strip_prefix(name)).unwrap_or(zone);
    let negative = match offset {
        [] => return Some(0),
        [b'+', ..] => false,
        [b'-', ..] => true,
        _ => return None,
    };
    let mut parts = DateScanner { bytes: offset, at: 1 };
    let (hours, minutes, seconds) = parts.offset()?;
    let total = hours * 3600 + minutes * 60 + seconds;
    let valid = minutes < 60 && seconds < 60 && total <= 18 * 3600;
    valid.then_some(if negative { -total } else { total })
}

impl DateScanner<'_> {
    /// Reads `h`, `hh`, `h:mm`, `hh:m`, `hh:mm`, `hh:mm:ss`, `hhmm` or `hhmmss`.
    fn offset(&mut self) -> Option<(i64, i64, i64)> {
        let digits = self.bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 2 {
            let two = |parts: &Self, at: usize| DateScanner { bytes: &parts.bytes[at..at + 2], at: 0 }.number(2..=2);
            return match (digits, self.bytes.len()) {
                (4, 5) => Some((two(self, 1)?, two(self, 3)?, 0)),
                (6, 7) => Some((two(self, 1)?, two(self, 3)?, two(self, 5)?)),
                _ => None,
            };
        }
        let hours = self.number(1..=2)?;
        let (mut minutes, mut seconds) = (0, 0);
        if self.take(|byte| byte == b':') {
            minutes = self.number(1..=2)?;
            if self.take(|byte| byte == b':') {
                seconds = self.number(2..=2)?;
            }
        }
        (self.at == self.bytes.len()).then_some((hours, minutes, seconds))
    }
}
