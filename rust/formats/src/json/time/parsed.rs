//! Reads texts by a pattern, and makes dates and timestamps of their parts.

use super::pattern::{Item, Number, Offset, PARTS, Part, Sign};
use super::{Date, TimeZone, zone};

/// Checked parts of a text.
#[derive(Debug, Clone, Default)]
pub(super) struct Parsed {
    parts: [Option<i64>; PARTS],
    zone: Option<TimeZone>,
}

pub(super) struct Reading<'t> {
    text: &'t str,
    at: usize,
    parsed: Parsed,
}

impl<'t> Reading<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, parsed: Parsed::default() }
    }

    /// Parts read, if the text is at its end.
    pub(super) fn finish(self) -> Option<Parsed> {
        (self.at == self.text.len()).then_some(self.parsed)
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn all(&mut self, items: &[Item]) -> Option<()> {
        items.iter().try_for_each(|item| self.item(item))
    }

    fn item(&mut self, item: &Item) -> Option<()> {
        match item {
            Item::Literal(literal) => {
                let found = self.rest().chars().next()?;
                let same = found == *literal
                    || found.to_uppercase().eq(literal.to_uppercase())
                    || found.to_lowercase().eq(literal.to_lowercase());
                same.then(|| self.at += found.len_utf8())
            }
            Item::Number(number) => self.number(number),
            Item::Fraction(max) => self.fraction(*max),
            Item::Month(names) => {
                let index = names.iter().position(|name| self.take(name))?;
                self.set(Part::Month, index as i64 + 1)
            }
            Item::HalfDay => {
                let index = ["AM", "PM"].iter().position(|name| self.take(name))?;
                self.set(Part::HalfDay, index as i64)
            }
            Item::Zone => self.zone(),
            Item::Offset { form, none } => {
                let seconds = self.offset(*form, none)?;
                self.set(Part::Offset, seconds)
            }
            Item::Optional(items) => {
                let before = (self.at, self.parsed.clone());
                if self.all(items).is_none() {
                    (self.at, self.parsed) = before;
                }
                Some(())
            }
        }
    }

    /// Consumes an expected text, case-insensitively.
    fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().get(..expected.len()).is_some_and(|text| text.eq_ignore_ascii_case(expected));
        self.at += if found { expected.len() } else { 0 };
        found
    }

    /// Sets a part; a part that occurs twice must have the same value.
    fn set(&mut self, part: Part, value: i64) -> Option<()> {
        let before = self.parsed.parts[part as usize].replace(value);
        (before.is_none() || before == Some(value)).then_some(())
    }

    fn digits(&self, at: usize, max: usize) -> usize {
        self.text.as_bytes()[at..].iter().take(max).take_while(|byte| byte.is_ascii_digit()).count()
    }

    fn number(&mut self, number: &Number) -> Option<()> {
        let first = self.rest().bytes().next()?;
        let (negative, positive) = match (first, number.sign) {
            (b'-', Sign::Normal | Sign::Exceeding) => (true, false),
            (b'+', Sign::Exceeding) => (false, true),
            (b'+' | b'-', _) => return None,
            _ => (false, false),
        };
        let start = self.at + usize::from(negative || positive);
        let mut count = self.digits(start, number.max + number.behind);
        if number.behind > 0 {
            count = count.min(number.min.max(count.saturating_sub(number.behind)));
        }
        if count < number.min {
            return None;
        }
        let mut value: i64 = self.text.get(start..start + count)?.parse().ok()?;
        if negative && value == 0 {
            return None;
        }
        if number.sign == Sign::Exceeding && !negative && positive != (count > number.min) {
            return None;
        }
        if number.reduced {
            value += 2000;
        }
        self.at = start + count;
        self.set(number.part, if negative { -value } else { value })
    }

    /// Reads one digit or more.
    fn fraction(&mut self, max: usize) -> Option<()> {
        let count = self.digits(self.at, max);
        if count == 0 {
            return None;
        }
        let digits = self.text.get(self.at..self.at + count)?;
        let nanos = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
        let nanos = nanos.fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        self.at += count;
        self.set(Part::Nanos, nanos)
    }

    fn offset(&mut self, form: Offset, none: &str) -> Option<i64> {
        if self.take(none) {
            return Some(0);
        }
        let negative = match self.rest().bytes().next()? {
            b'+' => false,
            b'-' => true,
            _ => return None,
        };
        self.at += 1;
        let hours = self.sixty(false)?;
        let minutes = self.sixty(form.colon);
        if minutes.is_none() && form.minutes_needed || hours > 23 {
            return None;
        }
        let seconds = if form.seconds { self.sixty(form.colon) } else { None };
        let total = hours * 3600 + minutes.unwrap_or_default() * 60 + seconds.unwrap_or_default();
        Some(if negative { -total } else { total })
    }

    /// Reads two digits below 60, behind a colon if one is needed.
    fn sixty(&mut self, colon: bool) -> Option<i64> {
        let rest = self.rest();
        let rest = if colon { rest.strip_prefix(':')? } else { rest };
        let digits = rest.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        let value = digits.parse().ok().filter(|value| *value < 60)?;
        self.at += 2 + usize::from(colon);
        Some(value)
    }

    fn zone(&mut self) -> Option<()> {
        const ID: Offset = Offset { colon: true, minutes_needed: true, seconds: true };
        let signed = |reading: &Self| matches!(reading.rest().bytes().next(), Some(b'+' | b'-'));
        let zone = if signed(self) {
            TimeZone::of_offset(self.offset(ID, "Z")?)?
        } else if ["UTC", "UT", "GMT"].into_iter().any(|prefix| self.take(prefix)) {
            let at = self.at;
            let offset = if signed(self) { self.offset(ID, "0") } else { None };
            if offset.is_none() {
                self.at = at;
            }
            TimeZone::of_offset(offset.unwrap_or_default())?
        } else if let Some((zone, length)) = longest_region(self.rest()) {
            self.at += length;
            zone
        } else if self.take("Z") {
            TimeZone::UTC
        } else {
            return None;
        };
        self.parsed.zone = Some(zone);
        Some(())
    }
}

/// Region with the longest name that the text begins with.
fn longest_region(text: &str) -> Option<(TimeZone, usize)> {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+' | b'~' | b'.');
    let longest = text.bytes().take(zone::MAX_NAME_BYTES).take_while(|byte| named(*byte)).count();
    (2..=longest).rev().find_map(|length| Some((TimeZone::region(text.get(..length)?)?, length)))
}

impl Parsed {
    fn get(&self, part: Part) -> Option<i64> {
        self.parts[part as usize]
    }

    /// The part if it was read, else this default; `None` if it is out of range.
    fn within(&self, part: Part, default: i64, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        Some(self.get(part).unwrap_or(default)).filter(|value| range.contains(value))
    }

    /// Date of the parts; missing ones are taken from 1970-01-01.
    pub(super) fn date(&self) -> Option<Date> {
        self.time()?;
        self.offset()?;
        let year = self.within(Part::Year, 1970, -999_999_999..=999_999_999)?;
        let month = self.within(Part::Month, 1, 1..=12)?;
        let day = self.within(Part::Day, 1, 1..=31)?;
        let given = |part| self.get(part).is_some();
        let whole = given(Part::Year) && given(Part::Month) && given(Part::Day);
        match self.get(Part::DayOfYear) {
            Some(day_of_year) if !whole => {
                let date = (1..=12).find_map(|month| {
                    let first = Date::new(year, month, 1)?;
                    let date = Date::new(year, month, day_of_year - first.day_of_year()? + 1)?;
                    (1..=366).contains(&day_of_year).then_some(date)
                })?;
                let (_, read_month, read_day) = date.parts;
                let same = |part, value| self.get(part).is_none_or(|given| given == value);
                (same(Part::Month, read_month) && same(Part::Day, read_day)).then_some(date)
            }
            Some(day_of_year) => Date::new(year, month, day).filter(|date| date.day_of_year() == Some(day_of_year)),
            _ => Date::new(year, month, day),
        }
    }

    /// Second of the day, and the microseconds.
    fn time(&self) -> Option<(i64, i64)> {
        let clock = self.within(Part::ClockHour, 24, 1..=24)? % 24;
        let half_clock = self.within(Part::HalfDayClockHour, 12, 1..=12)? % 12;
        let half_hour = self.within(Part::HalfDayHour, half_clock, 0..=11)?;
        let given = |part| self.get(part).is_some();
        if given(Part::HalfDayClockHour) && half_hour != half_clock {
            return None;
        }
        let half_given = given(Part::HalfDayClockHour) || given(Part::HalfDayHour);
        let from_half = self.get(Part::HalfDay).unwrap_or_default() * 12 + half_hour;
        let whole = self.within(Part::Hour, clock, 0..=23)?;
        if given(Part::ClockHour) && whole != clock {
            return None;
        }
        let hour = if given(Part::Hour) || given(Part::ClockHour) {
            let same_half = self.get(Part::HalfDay).is_none_or(|half| half == whole / 12);
            let same_hour = !half_given || half_hour == whole % 12;
            (same_half && same_hour).then_some(whole)?
        } else {
            from_half
        };
        let minute = self.within(Part::Minute, 0, 0..=59)?;
        let second = self.within(Part::Second, 0, 0..=59)?;
        let nanos = self.get(Part::Nanos).unwrap_or_default();
        Some((hour * 3600 + minute * 60 + second, nanos / 1000))
    }

    /// Offset, if one was read; the outer `None` stands for an invalid one.
    #[allow(clippy::option_option, reason = "an offset that is wrong is not one that is missing")]
    fn offset(&self) -> Option<Option<TimeZone>> {
        match self.get(Part::Offset) {
            Some(offset) => TimeZone::of_offset(offset).map(Some),
            None => Some(None),
        }
    }

    /// Microseconds since 1970. `default_zone` applies if no zone was read; without it, the timestamp is local.
    pub(super) fn micros(&self, default_zone: Option<&TimeZone>) -> Option<i64> {
        let (second, micros) = self.time()?;
        let date = self.date()?;
        let read = self.zone.clone().or(self.offset()?);
        let zone = match (&read, default_zone) {
            (Some(_), None) => return None,
            (Some(zone), Some(_)) => Some(zone),
            (None, default) => default,
        };
        super::micros(date, second, micros, zone)
    }
}
