//! Durations as ISO 8601 writes them and Java's `Duration.parse` reads them: `P7D`, `PT1H30M`, `PT0.5S`, `P-1DT25H`.

use std::time::Duration;

const NANOS: i128 = 1_000_000_000;

/// The units in their order, each with its seconds; the first stands before the `T`.
const UNITS: [(char, i128); 4] = [('D', 86_400), ('H', 3_600), ('M', 60), ('S', 1)];

/// Reason that a text is no duration to look back by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DurationProblem {
    /// It is not written like one.
    Malformed,
    /// It is negative.
    Negative,
    /// It has more seconds than 64 bits hold.
    TooLong,
}

/// Parses a duration.
///
/// # Errors
/// [`DurationProblem`].
pub(crate) fn parse(text: &str) -> Result<Duration, DurationProblem> {
    let text = text.to_ascii_uppercase();
    let (is_negated, rest) = signed(&text);
    let rest = rest.strip_prefix('P').ok_or(DurationProblem::Malformed)?;
    let (days, time) = match rest.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return Err(DurationProblem::Malformed),
        None => (rest, ""),
    };
    if days.is_empty() && time.is_empty() {
        return Err(DurationProblem::Malformed);
    }
    let nanos = nanos_of(days, &UNITS[..1])?.checked_add(nanos_of(time, &UNITS[1..])?);
    let nanos = nanos.map(|nanos| if is_negated { -nanos } else { nanos }).ok_or(DurationProblem::TooLong)?;
    let seconds = i64::try_from(nanos.div_euclid(NANOS)).map_err(|_| DurationProblem::TooLong)?;
    let seconds = u64::try_from(seconds).map_err(|_| DurationProblem::Negative)?;
    Ok(Duration::new(seconds, nanos.rem_euclid(NANOS) as u32))
}

/// The sum of numbers with units, which come in this order.
fn nanos_of(mut text: &str, units: &[(char, i128)]) -> Result<i128, DurationProblem> {
    let mut sum: i128 = 0;
    for &(unit, seconds) in units {
        let Some((number, rest)) = text.split_once(unit) else { continue };
        let nanos = number_of(number, unit == 'S')?.checked_mul(seconds).ok_or(DurationProblem::TooLong)?;
        sum = sum.checked_add(nanos).ok_or(DurationProblem::TooLong)?;
        text = rest;
    }
    if text.is_empty() { Ok(sum) } else { Err(DurationProblem::Malformed) }
}

/// A number with its sign, times [`NANOS`]; up to nine digits of a fraction, if it may have one.
fn number_of(text: &str, may_have_fraction: bool) -> Result<i128, DurationProblem> {
    let (is_negative, text) = signed(text);
    let (whole, fraction) = match text.split_once(['.', ',']) {
        Some((whole, fraction)) if may_have_fraction && fraction.len() <= 9 => (whole, fraction),
        Some(_) => return Err(DurationProblem::Malformed),
        None => (text, ""),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
        return Err(DurationProblem::Malformed);
    }
    // Only a number beyond 64 bits cannot be parsed.
    let whole: i64 = whole.parse().map_err(|_| DurationProblem::TooLong)?;
    let fraction: i128 = format!("{fraction:0<9}").parse().map_err(|_| DurationProblem::Malformed)?;
    let number = i128::from(whole) * NANOS + fraction;
    Ok(if is_negative { -number } else { number })
}

fn signed(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_mean_what_they_mean_to_java() {
        for (text, millis) in [
            ("P7D", 604_800_000),
            ("PT1H30M", 5_400_000),
            ("P1DT2H3M4.5S", 93_784_500),
            ("pt0,25s", 250),
            ("PT5.S", 5_000),
            ("PT2H-60M", 3_600_000),
            ("-PT-1H", 3_600_000),
            ("-P-1DT1H", 82_800_000),
            ("P-1DT25H", 3_600_000),
            ("PT0S", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("PT0.000000001S"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn what_java_refuses_is_refused() {
        for text in [
            "",
            "7D",
            "P",
            "PT",
            "P1DT",
            "P1W",
            "P1Y",
            "PT1D",
            "P1H",
            "PT1M1H",
            "PT.5S",
            "PT1.5H",
            "PT0.1234567890S",
            "P 1D",
            "P1D ",
            "PT1S1S",
        ] {
            assert_eq!(parse(text), Err(DurationProblem::Malformed), "{text}");
        }
        for text in ["P-1D", "-PT1S", "PT-0.000000001S"] {
            assert_eq!(parse(text), Err(DurationProblem::Negative), "{text}");
        }
        for text in ["P99999999999999999999D", "P9223372036854775807D", "PT9223372036854775808S"] {
            assert_eq!(parse(text), Err(DurationProblem::TooLong), "{text}");
        }
    }
}
