//! Patterns of dates and timestamps: the letters of Java's `DateTimeFormatter` that Spark permits. Texts are parsed
//! strictly, in English, with fractions of a second of one digit or more.

use super::TimeZone;
use super::parsed::{Parsed, Reading};

/// A pattern such as `dd.MM.yyyy HH:mm[:ss.SSS][XXX]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    items: Vec<Item>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    DayOfYear,
    Hour,
    ClockHour,
    HalfDayHour,
    HalfDayClockHour,
    HalfDay,
    Minute,
    Second,
    Nanos,
    Offset,
}

pub(super) const PARTS: usize = Part::Offset as usize + 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// Sign not permitted.
    Never,
    /// Minus permitted.
    Normal,
    /// Minus permitted, and a plus if there are more digits than the minimum.
    Exceeding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) part: Part,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) sign: Sign,
    /// Digits reserved for the numbers that follow without a separator, if each has a fixed width.
    pub(super) behind: usize,
    /// Two-digit year, from 2000 to 2099.
    pub(super) reduced: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Literal(char),
    Number(Number),
    Fraction(usize),
    Month(&'static [&'static str; 12]),
    HalfDay,
    Zone,
    Offset { form: Offset, none: &'static str },
    Optional(Vec<Item>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    pub(super) colon: bool,
    pub(super) minutes_needed: bool,
    pub(super) seconds: bool,
}

const SHORT_MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Letter that is not supported, or a syntax error.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut compiler = Compiler { open: vec![Vec::new()], base: None };
        compiler.pattern(text).map_err(|reason| format!("pattern {text:?}: {reason}"))?;
        while compiler.open.len() > 1 {
            compiler.close();
        }
        Ok(Self { text: text.to_owned(), items: compiler.open.pop().unwrap_or_default() })
    }

    /// The pattern, as given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Parses a date, in days since 1970.
    pub(crate) fn date(&self, text: &str) -> Option<i32> {
        i32::try_from(self.read(text)?.date()?.days).ok()
    }

    /// Parses a timestamp, in microseconds since 1970. `zone` applies to texts that name none.
    pub(crate) fn timestamp(&self, text: &str, zone: &TimeZone) -> Option<i64> {
        self.read(text)?.micros(Some(zone))
    }

    /// Parses a local timestamp, in microseconds since 1970; a text with a zone is refused.
    pub(crate) fn local_timestamp(&self, text: &str) -> Option<i64> {
        self.read(text)?.micros(None)
    }

    fn read(&self, text: &str) -> Option<Parsed> {
        let mut reading = Reading::new(text);
        reading.all(&self.items)?;
        reading.finish()
    }
}

struct Compiler {
    /// Items so far, one list for each open optional section, outermost first.
    open: Vec<Vec<Item>>,
    /// Index in the innermost section of the number that yields digits to directly following numbers of fixed width.
    base: Option<usize>,
}

impl Compiler {
    fn pattern(&mut self, text: &str) -> Result<(), String> {
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\'' if rest.next_if_eq(&'\'').is_some() => self.push(Item::Literal('\'')),
                '\'' => loop {
                    match rest.next() {
                        Some('\'') if rest.next_if_eq(&'\'').is_none() => break,
                        Some(literal) => self.push(Item::Literal(literal)),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                },
                '[' => {
                    self.base = None;
                    self.open.push(Vec::new());
                }
                ']' if self.open.len() > 1 => self.close(),
                ']' => return Err("a bracket was not opened".to_owned()),
                '{' | '}' | '#' => return Err(format!("{character} is reserved")),
                letter if letter.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while rest.next_if_eq(&letter).is_some() {
                        count += 1;
                    }
                    self.letters(letter, count)?;
                }
                literal => self.push(Item::Literal(literal)),
            }
        }
        Ok(())
    }

    fn letters(&mut self, letter: char, count: usize) -> Result<(), String> {
        let number = |part, max, sign| Number { part, min: count, max, sign, behind: 0, reduced: false };
        let fixed = |part| match count {
            1 => Number { part, min: 1, max: 19, sign: Sign::Normal, behind: 0, reduced: false },
            _ => number(part, count, Sign::Never),
        };
        let offset = |colon, minutes_needed, seconds, none| Item::Offset {
            form: Offset { colon, minutes_needed, seconds },
            none,
        };
        match (letter, count) {
            ('y', 2) => self.number(Number { reduced: true, ..number(Part::Year, 2, Sign::Never) }),
            ('y', 1 | 3) => self.number(number(Part::Year, 19, Sign::Normal)),
            ('y', 4..=6) => self.number(number(Part::Year, 19, Sign::Exceeding)),
            ('M' | 'L', 1..=2) => self.number(fixed(Part::Month)),
            ('M' | 'L', 3) => self.push(Item::Month(&SHORT_MONTHS)),
            ('M' | 'L', 4) => self.push(Item::Month(&MONTHS)),
            ('d', 1..=2) => self.number(fixed(Part::Day)),
            ('D', 1) => self.number(fixed(Part::DayOfYear)),
            ('D', 2..=3) => self.number(number(Part::DayOfYear, 3, Sign::Never)),
            ('H', 1..=2) => self.number(fixed(Part::Hour)),
            ('k', 1..=2) => self.number(fixed(Part::ClockHour)),
            ('K', 1..=2) => self.number(fixed(Part::HalfDayHour)),
            ('h', 1..=2) => self.number(fixed(Part::HalfDayClockHour)),
            ('m', 1..=2) => self.number(fixed(Part::Minute)),
            ('s', 1..=2) => self.number(fixed(Part::Second)),
            ('S', 1..=9) => self.push(Item::Fraction(count)),
            ('a', 1) => self.push(Item::HalfDay),
            ('V', 2) => self.push(Item::Zone),
            ('X', 1) => self.push(offset(false, false, false, "Z")),
            ('X', 2) => self.push(offset(false, true, false, "Z")),
            ('X', 3) => self.push(offset(true, true, false, "Z")),
            ('X', 4) => self.push(offset(false, true, true, "Z")),
            ('X' | 'Z', 5) => self.push(offset(true, true, true, "Z")),
            ('x', 1) => self.push(offset(false, false, false, "+00")),
            ('x', 2) | ('Z', 1..=3) => self.push(offset(false, true, false, "+0000")),
            ('x', 3) => self.push(offset(true, true, false, "+00:00")),
            ('x', 4) => self.push(offset(false, true, true, "+0000")),
            ('x', 5) => self.push(offset(true, true, true, "+00:00")),
            _ => {
                let letters = letter.to_string().repeat(count.min(20));
                return Err(format!(
                    "{letters} is not supported; use y, M, L, d, D, H, h, k, K, m, s, S, a, VV, X, x, Z, and text in quotes"
                ));
            }
        }
        Ok(())
    }

    fn push(&mut self, item: Item) {
        self.base = None;
        self.innermost().push(item);
    }

    /// Adds a number. If it follows another one directly, it reserves digits of that one.
    fn number(&mut self, number: Number) {
        let base = self.base;
        let items = self.innermost();
        let index = items.len();
        items.push(Item::Number(number));
        self.base = Some(index);
        if let Some(before) = base
            && number.min == number.max
            && number.sign == Sign::Never
            && let Some(Item::Number(before_number)) = self.innermost().get_mut(before)
        {
            before_number.behind += number.max;
            self.base = base;
        }
    }

    fn close(&mut self) {
        let section = self.open.pop().unwrap_or_default();
        self.push(Item::Optional(section));
    }

    fn innermost(&mut self) -> &mut Vec<Item> {
        if self.open.is_empty() {
            self.open.push(Vec::new());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }
}
