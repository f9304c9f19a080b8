//! Parsers of integers, floats and decimals.

/// Jackson's limit on the length of a number. Decoding longer ones would cost more than linear time.
pub(crate) const MAX_NUMBER_BYTES: usize = 1000;

/// Parses an integer without fraction or exponent; `None` if it is out of range.
#[inline(always)]
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // Eighteen digits cannot overflow.
    if digits.len() > 18 {
        return text.parse().ok();
    }
    let value = digits.iter().fold(0, |value: i64, digit| value * 10 + i64::from(digit - b'0'));
    Some(if negative { -value } else { value })
}

/// Parses an integer of at most 18 digits, which cannot overflow, at the start of the bytes, and returns its length
/// with it; `None` for other numbers.
#[inline(always)]
pub(crate) fn short_integer(bytes: &[u8], leading_zeros: bool) -> Option<(i64, usize)> {
    let negative = bytes.first() == Some(&b'-');
    let sign = usize::from(negative);
    let (mut value, mut at) = (0_i64, sign);
    while let Some(byte @ b'0'..=b'9') = bytes.get(at) {
        if at - sign == 18 {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
        at += 1;
    }
    let is_padded = bytes.get(sign) == Some(&b'0') && at > sign + 1 && !leading_zeros;
    if at == sign || is_padded || matches!(bytes.get(at), Some(b'.' | b'e' | b'E')) {
        return None;
    }
    Some((if negative { -value } else { value }, at))
}

/// Parses a number whose digits, as an integer, and whose power of ten are both exact in f64, as those of most are, at
/// the start of the bytes, and returns its length with it; `None` for others. The single division then rounds
/// correctly. An integer -0 is 0, as in Java.
#[inline(always)]
pub(crate) fn short_float(bytes: &[u8], leading_zeros: bool) -> Option<(f64, usize)> {
    const POWERS: [f64; 18] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17];
    const MAX_BYTES: usize = 17;
    let negative = bytes.first() == Some(&b'-');
    let sign = usize::from(negative);
    let (mut whole, mut at) = (0_u64, sign);
    while let Some(byte @ b'0'..=b'9') = bytes.get(at) {
        if at - sign == MAX_BYTES {
            return None;
        }
        whole = whole * 10 + u64::from(byte - b'0');
        at += 1;
    }
    let whole_end = at;
    let is_padded = bytes.get(sign) == Some(&b'0') && at > sign + 1 && !leading_zeros;
    if at == sign || is_padded {
        return None;
    }
    let has_fraction = bytes.get(at) == Some(&b'.');
    if has_fraction {
        at += 1;
        while let Some(byte @ b'0'..=b'9') = bytes.get(at) {
            if at - sign == MAX_BYTES {
                return None;
            }
            whole = whole * 10 + u64::from(byte - b'0');
            at += 1;
        }
        if at == whole_end + 1 {
            return None;
        }
    }
    if whole > 1 << 53 || matches!(bytes.get(at), Some(b'e' | b'E')) {
        return None;
    }
    let fraction_digits = at - whole_end - usize::from(has_fraction);
    let value = whole as f64 / POWERS.get(fraction_digits).copied()?;
    let is_negative = negative && (has_fraction || whole != 0);
    Some((if is_negative { -value } else { value }, at))
}

/// Parses the texts that Spark reads as NaN or an infinity.
pub(crate) fn not_finite(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "+INF" | "+Infinity" | "Infinity" => Some(f64::INFINITY),
        "-INF" | "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Reason why a text is no decimal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecimalFault {
    Unreadable,
    OutOfRange,
}

/// Unscaled value of a decimal with this precision and scale, rounded half up. The text is a JSON number, or any text
/// that Java's BigDecimal accepts; commas are removed, as Spark does.
pub(crate) fn decimal(text: &str, precision: u8, scale: i8) -> Result<i128, DecimalFault> {
    let parts = DecimalParts::read(text.as_bytes()).ok_or(DecimalFault::Unreadable)?;
    let shift = parts.exponent.saturating_add(i64::from(scale)).saturating_sub(parts.fraction_digits);
    let (mut significant, mut unscaled, mut kept) = (0_i64, 0_i128, 0_i64);
    let digits = || text.bytes().take(parts.digits_end).filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0');
    significant += digits().count() as i64;
    if significant == 0 {
        return Ok(0);
    }
    let wanted = significant.saturating_add(shift);
    if wanted > i64::from(precision) {
        return Err(DecimalFault::OutOfRange);
    }
    if wanted < 0 {
        return Ok(0);
    }
    let mut rest = digits();
    while kept < wanted {
        unscaled = unscaled * 10 + rest.next().map_or(0, |digit| i128::from(digit - b'0'));
        kept += 1;
    }
    if rest.next().is_some_and(|digit| digit >= b'5') {
        unscaled += 1;
    }
    if unscaled >= 10_i128.pow(precision.into()) {
        return Err(DecimalFault::OutOfRange);
    }
    Ok(if parts.negative { -unscaled } else { unscaled })
}

struct DecimalParts {
    negative: bool,
    digits_end: usize,
    fraction_digits: i64,
    exponent: i64,
}

impl DecimalParts {
    fn read(text: &[u8]) -> Option<Self> {
        let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
        let digits_end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let (mut digits, mut point, mut fraction_digits) = (0, false, 0);
        for byte in text.get(sign..digits_end)? {
            match byte {
                b'0'..=b'9' => {
                    digits += 1;
                    fraction_digits += i64::from(point);
                }
                b'.' if !point => point = true,
                b',' => {}
                _ => return None,
            }
        }
        let exponent = match text.get(digits_end + 1..) {
            Some(exponent) => exponent_of(exponent)?,
            None => 0,
        };
        (digits > 0).then_some(Self { negative: text.first() == Some(&b'-'), digits_end, fraction_digits, exponent })
    }
}

fn exponent_of(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value =
        digits.iter().fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add((digit - b'0').into()));
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_half_up_to_their_scale() {
        let cases = [
            ("1.005", Ok(101)),
            ("-1.005", Ok(-101)),
            ("0.0049", Ok(0)),
            ("0.005", Ok(1)),
            ("9e-3", Ok(1)),
            ("1e-400", Ok(0)),
            ("123.4567e1", Ok(123_457)),
            ("1,0,00", Ok(100_000)),
            (".5", Ok(50)),
            ("5.", Ok(500)),
            ("+1", Ok(100)),
            ("-0", Ok(0)),
            ("99999999.994", Ok(9_999_999_999)),
            ("99999999.995", Err(DecimalFault::OutOfRange)),
            ("1e99999999999999999999", Err(DecimalFault::OutOfRange)),
            ("", Err(DecimalFault::Unreadable)),
            ("-", Err(DecimalFault::Unreadable)),
            ("1e", Err(DecimalFault::Unreadable)),
            ("e5", Err(DecimalFault::Unreadable)),
            ("1.2.3", Err(DecimalFault::Unreadable)),
            ("1 ", Err(DecimalFault::Unreadable)),
        ];
        for (text, expected) in cases {
            assert_eq!(decimal(text, 10, 2), expected, "{text}");
        }
        let widest = "99999999999999999999999999999999999999";
        assert_eq!(decimal(widest, 38, 0), Ok(10_i128.pow(38) - 1));
    }

    #[test]
    fn short_floats_are_those_of_the_standard_library() {
        let mut noise = 1_u64;
        for _ in 0..200_000 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let digits = (noise >> 8).to_string();
            let digits = &digits[..1 + (noise >> 3) as usize % digits.len()];
            let point = (noise >> 32) as usize % digits.len();
            let sign = if noise & 1 == 0 { "-" } else { "" };
            for text in [format!("{sign}{digits}"), format!("{sign}{}.{}", &digits[..=point], &digits[point..])] {
                let expected: f64 = text.parse().expect("a number");
                let found = short_float(format!("{text},").as_bytes(), false);
                let is_same = |(found, length): (f64, usize)| {
                    (found.to_bits() == expected.to_bits() || text == "-0") && length == text.len()
                };
                assert!(found.is_none_or(is_same), "{text}: {found:?}");
                assert!(found.is_some() || text.len() > 15, "{text}");
                let integer = short_integer(format!("{text}]").as_bytes(), false);
                assert_eq!(integer.map(|(value, _)| value), text.parse().ok().filter(|_| digits.len() <= 18), "{text}");
            }
        }
        let zero = |text: &str| short_float(text.as_bytes(), false).map(|(value, length)| (value.to_bits(), length));
        assert_eq!(zero("-0.0"), Some(((-0.0_f64).to_bits(), 4)));
        assert_eq!(zero("-0"), Some((0, 2)));
    }

    #[test]
    fn what_is_no_short_number_is_left_to_the_token() {
        for other in ["1e5", "1E5", "01", "-01", "-", "", "12345678901234567890", "x", "00"] {
            assert_eq!(short_integer(other.as_bytes(), false), None, "{other}");
            assert_eq!(short_float(other.as_bytes(), false), None, "{other}");
        }
        for other in ["1.", "1.e5", "0.5e5", "-.5", "01.5"] {
            assert_eq!(short_float(other.as_bytes(), false), None, "{other}");
        }
        assert_eq!(short_integer(b"1.5", false), None);
        assert_eq!((short_integer(b"007", true), short_float(b"007", true)), (Some((7, 3)), Some((7.0, 3))));
    }

    #[test]
    fn integers_reach_the_ends_of_their_range() {
        assert_eq!(integer("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer("9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer("9223372036854775808"), None);
        assert_eq!(integer("-0"), Some(0));
    }
}
