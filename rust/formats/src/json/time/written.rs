//! Dates and timestamps as texts, as Spark's `to_json` writes them: in its default formats, or by a pattern.

use super::pattern::{Item, Number, Offset, Part, Sign};
use super::{MICROS_PER_SECOND, Pattern, SECONDS_PER_DAY, TimeZone, days_of};

/// Error: the part that a pattern asks for and the value lacks.
type Formatted = Result<(), &'static str>;

const NO_TIME: &str = "the pattern asks for a time of day, which a date has not";
const NO_ZONE: &str = "the pattern asks for a zone, which there is none of";
const TOO_LARGE: &str = "a number has more digits than the pattern has room for";

/// A date, or a point in time in some zone.
struct Moment<'z> {
    days: i64,
    /// Year, month and day.
    date: (i64, i64, i64),
    /// The second of the day, and the microseconds.
    time: Option<(i64, i64)>,
    /// Zone, and its offset in seconds.
    zone: Option<(&'z TimeZone, i64)>,
}

impl<'z> Moment<'z> {
    fn of_days(days: i64) -> Self {
        Self { days, date: civil(days), time: None, zone: None }
    }

    /// Moment in a zone; local without one.
    fn of_micros(micros: i64, zone: Option<&'z TimeZone>) -> Self {
        let (second, fraction) = (micros.div_euclid(MICROS_PER_SECOND), micros.rem_euclid(MICROS_PER_SECOND));
        let zone = zone.map(|zone| (zone, zone.offset_of(second)));
        let local = second + zone.map_or(0, |(_, offset)| offset);
        let days = local.div_euclid(SECONDS_PER_DAY);
        Self { days, date: civil(days), time: Some((local.rem_euclid(SECONDS_PER_DAY), fraction)), zone }
    }
}

/// Writes a date, in days since 1970, as `yyyy-MM-dd`.
pub(crate) fn write_date(days: i64, out: &mut Vec<u8>) {
    date(civil(days), out);
}

/// Writes a timestamp, in microseconds since 1970, as `yyyy-MM-dd'T'HH:mm:ss.SSS[XXX]`; with six fractional digits if
/// it needs them, so that nothing is lost.
pub(crate) fn write_timestamp(micros: i64, zone: Option<&TimeZone>, out: &mut Vec<u8>) {
    let moment = Moment::of_micros(micros, zone);
    date(moment.date, out);
    let (second, fraction) = moment.time.unwrap_or_default();
    out.push(b'T');
    two(second / 3600, out);
    out.push(b':');
    two(second / 60 % 60, out);
    out.push(b':');
    two(second % 60, out);
    out.push(b'.');
    match fraction % 1_000 {
        0 => padded(fraction / 1_000, 3, out),
        _ => padded(fraction, 6, out),
    }
    if let Some((_, seconds)) = moment.zone {
        offset(Offset { colon: true, minutes_needed: true, seconds: true }, "Z", seconds, out);
    }
}

impl Pattern {
    /// Writes a date, in days since 1970.
    pub(crate) fn write_date(&self, days: i64, out: &mut Vec<u8>) -> Formatted {
        all(self.items(), &Moment::of_days(days), out)
    }

    /// Writes a timestamp, in microseconds since 1970, in a zone; as a local one without.
    pub(crate) fn write_timestamp(&self, micros: i64, zone: Option<&TimeZone>, out: &mut Vec<u8>) -> Formatted {
        all(self.items(), &Moment::of_micros(micros, zone), out)
    }
}

fn all(items: &[Item], moment: &Moment<'_>, out: &mut Vec<u8>) -> Formatted {
    items.iter().try_for_each(|item| one(item, moment, out))
}

fn one(item: &Item, moment: &Moment<'_>, out: &mut Vec<u8>) -> Formatted {
    match item {
        Item::Literal(literal) => out.extend_from_slice(literal.encode_utf8(&mut [0; 4]).as_bytes()),
        Item::Number(number) => return write_number(number, moment, out),
        Item::Fraction(digits) => {
            let (_, micros) = moment.time.ok_or(NO_TIME)?;
            let nanos = micros * 1_000;
            padded(nanos / 10_i64.pow(9 - (*digits).min(9) as u32), *digits, out);
        }
        Item::Month(names) => {
            let name = usize::try_from(moment.date.1 - 1).ok().and_then(|index| names.get(index));
            out.extend_from_slice(name.copied().unwrap_or_default().as_bytes());
        }
        Item::HalfDay => {
            let (second, _) = moment.time.ok_or(NO_TIME)?;
            out.extend_from_slice(if second < 43_200 { b"AM" } else { b"PM" });
        }
        Item::Zone => out.extend_from_slice(moment.zone.ok_or(NO_ZONE)?.0.id().as_bytes()),
        Item::Offset { form, none } => offset(*form, none, moment.zone.ok_or(NO_ZONE)?.1, out),
        Item::Optional(items) => {
            let before = out.len();
            if all(items, moment, out).is_err() {
                out.truncate(before);
            }
        }
    }
    Ok(())
}

fn write_number(number: &Number, moment: &Moment<'_>, out: &mut Vec<u8>) -> Formatted {
    let hour = |most: i64| moment.time.map(|(second, _)| second / 3600 % most).ok_or(NO_TIME);
    // Clocks that begin at one write hour 0 as their highest number.
    let clock = |most| hour(most).map(|hour| if hour == 0 { most } else { hour });
    let value = match number.part {
        Part::Year if number.reduced => moment.date.0.abs() % 100,
        Part::Year => moment.date.0,
        Part::Month => moment.date.1,
        Part::Day => moment.date.2,
        Part::DayOfYear => moment.days - days_of(moment.date.0, 1, 1).unwrap_or(moment.days) + 1,
        Part::Hour => hour(24)?,
        Part::ClockHour => clock(24)?,
        Part::HalfDayHour => hour(12)?,
        Part::HalfDayClockHour => clock(12)?,
        Part::Minute => moment.time.ok_or(NO_TIME)?.0 / 60 % 60,
        Part::Second => moment.time.ok_or(NO_TIME)?.0 % 60,
        // Patterns compile these to items of their own.
        Part::HalfDay | Part::Nanos | Part::Offset => return Ok(()),
    };
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    match number.sign {
        _ if digits > number.max => return Err(TOO_LARGE),
        Sign::Never if value < 0 => return Err(TOO_LARGE),
        Sign::Normal | Sign::Exceeding if value < 0 => out.push(b'-'),
        Sign::Exceeding if digits > number.min => out.push(b'+'),
        _ => {}
    }
    padded(value.abs(), number.min, out);
    Ok(())
}

/// Writes an offset in this form; an offset of zero is written as `none`.
fn offset(form: Offset, none: &str, seconds: i64, out: &mut Vec<u8>) {
    let size = seconds.abs();
    let (hours, minutes, rest) = (size / 3600, size / 60 % 60, size % 60);
    let shown_seconds = form.seconds && rest > 0;
    if hours == 0 && minutes == 0 && !shown_seconds {
        out.extend_from_slice(none.as_bytes());
        return;
    }
    out.push(if seconds < 0 { b'-' } else { b'+' });
    two(hours, out);
    let mut part = |value| {
        if form.colon {
            out.push(b':');
        }
        two(value, out);
    };
    if form.minutes_needed || minutes > 0 {
        part(minutes);
    }
    if shown_seconds {
        part(rest);
    }
}

/// Writes `yyyy-MM-dd`; years of more digits have a sign.
fn date((year, month, day): (i64, i64, i64), out: &mut Vec<u8>) {
    match year {
        ..0 => out.push(b'-'),
        10_000.. => out.push(b'+'),
        _ => {}
    }
    padded(year.abs(), 4, out);
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(day, out);
}

fn two(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
}

/// Writes a number of at least this many digits.
fn padded(value: i64, digits: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value);
    out.resize(out.len() + digits.saturating_sub(text.len()), b'0');
    out.extend_from_slice(text.as_bytes());
}

/// Year, month and day in the proleptic Gregorian calendar, from days since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    // In years that begin in March, the leap day is the last one.
    let since_0000_03 = days + 719_468;
    let (cycle, day) = (since_0000_03.div_euclid(146_097), since_0000_03.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + carry, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::{civil, days_of};

    #[test]
    fn days_have_the_dates_that_they_are_the_days_of() {
        for days in (-800_000_000..800_000_000).step_by(9_973).chain(-1_000..1_000) {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), Some(days));
        }
    }
}
