//! Conditions on bytes: a key, the value of a header, the name of a topic.

use std::cmp::Ordering;

/// Comparison of bytes with one or several values. Bytes compare as unsigned numbers, as in Arrow and SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    /// Equality with one of the values, which are in ascending order.
    In,
    /// Less than the only value.
    Less,
    /// Greater than the only value.
    Greater,
    /// Begin with one of the values.
    StartsWith,
    /// End with one of the values.
    EndsWith,
    /// Contain one of the values.
    Contains,
    /// Are absent; there are no values.
    IsNull,
}

/// A condition on bytes that may be absent. As in SQL, a comparison with absent bytes holds no more than its negation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesTest {
    operator: Operator,
    values: Vec<Vec<u8>>,
    negated: bool,
}

impl BytesTest {
    /// A condition; `negated` is its opposite.
    pub fn new(operator: Operator, mut values: Vec<Vec<u8>>, negated: bool) -> Self {
        values.sort();
        Self { operator, values, negated }
    }

    /// True if the condition holds.
    pub fn holds(&self, given: Option<&[u8]>) -> bool {
        if self.operator == Operator::IsNull {
            return given.is_none() != self.negated;
        }
        given.is_some_and(|bytes| self.compare(bytes) != self.negated)
    }

    fn compare(&self, bytes: &[u8]) -> bool {
        let ordering = |wanted: Ordering| self.values.iter().any(|value| bytes.cmp(value) == wanted);
        match self.operator {
            Operator::In => match self.values.as_slice() {
                [only] => bytes == only,
                several => several.binary_search_by(|value| value.as_slice().cmp(bytes)).is_ok(),
            },
            Operator::Less => ordering(Ordering::Less),
            Operator::Greater => ordering(Ordering::Greater),
            Operator::StartsWith => self.values.iter().any(|value| bytes.starts_with(value)),
            Operator::EndsWith => self.values.iter().any(|value| bytes.ends_with(value)),
            Operator::Contains => self.values.iter().any(|value| contains(bytes, value)),
            Operator::IsNull => false,
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (Operator, &'static [&'static [u8]], &'static [u8], bool);

    fn holds(operator: Operator, values: &[&[u8]], given: Option<&[u8]>) -> [bool; 2] {
        let values: Vec<Vec<u8>> = values.iter().map(|value| value.to_vec()).collect();
        [false, true].map(|negated| BytesTest::new(operator.clone(), values.clone(), negated).holds(given))
    }

    #[test]
    fn each_operator_compares_bytes_and_has_an_opposite() {
        let cases: [Case; 14] = [
            (Operator::In, &[b"a"], b"a", true),
            (Operator::In, &[b"a"], b"ab", false),
            (Operator::In, &[b"c", b"a", b""], b"", true),
            (Operator::In, &[b"c", b"a", b"b"], b"d", false),
            (Operator::In, &[], b"a", false),
            (Operator::Less, &[b"b"], b"a\xff", true),
            (Operator::Less, &[b"b"], b"b", false),
            (Operator::Greater, &[b"\x7f"], b"\x80", true),
            (Operator::Greater, &[b"a"], b"a", false),
            (Operator::StartsWith, &[b"ab"], b"abc", true),
            (Operator::EndsWith, &[b"ab"], b"abc", false),
            (Operator::EndsWith, &[b"", b"x"], b"abc", true),
            (Operator::Contains, &[b"bc"], b"abcd", true),
            (Operator::Contains, &[b"bd"], b"abcd", false),
        ];
        for (operator, values, given, expected) in cases {
            assert_eq!(holds(operator.clone(), values, Some(given)), [expected, !expected], "{operator:?} {values:?}");
        }
    }

    #[test]
    fn absent_bytes_meet_neither_a_comparison_nor_its_opposite() {
        for operator in [Operator::In, Operator::Less, Operator::Greater, Operator::Contains] {
            assert_eq!(holds(operator, &[b""], None), [false, false]);
        }
        assert_eq!(holds(Operator::IsNull, &[], None), [true, false]);
        assert_eq!(holds(Operator::IsNull, &[], Some(b"")), [false, true]);
    }
}
