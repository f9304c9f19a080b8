//! A cursor over one JSON text: its tokens, checked, without a copy.
//!
//! Extensions of JSON follow Jackson with the same [`Syntax`]. Comments have been replaced before.

use super::number::{short_float, short_integer};
use super::options::Syntax;
use crate::error::Reason;

/// Limit on the nesting of objects and arrays: Jackson's.
pub(crate) const MAX_DEPTH: usize = 1000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) position: usize,
}

impl Fault {
    /// Returns true if the rest of the text cannot be read after this fault.
    pub(crate) fn ends_the_value(&self) -> bool {
        matches!(self.reason, Reason::NotUtf8 | Reason::NotJson(_) | Reason::TooDeep | Reason::RowTooLarge(_))
    }
}

/// Text between quotes, not yet unescaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'a> {
    pub(crate) raw: &'a str,
    pub(crate) has_escapes: bool,
    pub(crate) position: usize,
}

/// A value's first token: the whole token of a scalar; for objects and arrays, the cursor is behind the opening
/// bracket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Boolean(bool),
    /// Number, and true if it has neither a fraction nor an exponent.
    Number(&'a str, bool),
    /// Unquoted NaN or infinity.
    NotFinite(f64),
    Text(Quoted<'a>),
    Object,
    Array,
}

pub(crate) struct Cursor<'a> {
    text: &'a str,
    pub(crate) at: usize,
    syntax: Syntax,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str, syntax: Syntax) -> Self {
        Self { text, at: 0, syntax }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes().get(self.at..).unwrap_or_default()
    }

    pub(crate) fn fault(&self, reason: Reason) -> Fault {
        Fault { reason, position: self.at }
    }

    fn not_json<T>(&self, expected: &'static str) -> Result<T, Fault> {
        Err(self.fault(Reason::NotJson(expected)))
    }

    /// Text from `start` to the cursor. Both are at the edge of a token, hence at a character boundary.
    pub(crate) fn text_from(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Skips white space and returns the next byte without consuming it; `None` at the end.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes().get(self.at)?;
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Consumes this byte if it is the next one.
    #[inline(always)]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads the name of a field, and the colon behind it.
    #[inline(always)]
    pub(crate) fn name(&mut self) -> Result<Quoted<'a>, Fault> {
        let name = match self.peek() {
            Some(b'"') => self.quoted(b'"')?,
            _ => self.odd_name()?,
        };
        if self.take(b':') { Ok(name) } else { self.not_json("a colon") }
    }

    /// Reads a name in single quotes or without quotes.
    #[cold]
    fn odd_name(&mut self) -> Result<Quoted<'a>, Fault> {
        let (start, rest) = (self.at, self.text.get(self.at..).unwrap_or_default());
        if self.syntax.single_quotes && rest.starts_with('\'') {
            return self.quoted(b'\'');
        }
        if self.syntax.unquoted_field_names {
            self.at += rest.find(|character| !names_have(character)).unwrap_or(rest.len());
        }
        match self.text_from(start) {
            "" => self.not_json("a field name in quotes"),
            raw => Ok(Quoted { raw, has_escapes: false, position: start }),
        }
    }

    /// Consumes the comma between two elements, or the closing bracket; returns false for the bracket.
    #[inline(always)]
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, Fault> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => self.not_json("a comma or a closing bracket"),
        }
    }

    #[inline(always)]
    pub(crate) fn value(&mut self) -> Result<Value<'a>, Fault> {
        match self.peek() {
            Some(b'"') => self.quoted(b'"').map(Value::Text),
            Some(b'0'..=b'9') => self.number(self.at),
            Some(b'{') => {
                self.at += 1;
                Ok(Value::Object)
            }
            Some(b'[') => {
                self.at += 1;
                Ok(Value::Array)
            }
            Some(b'-') if matches!(self.bytes().get(self.at + 1), Some(b'0'..=b'9')) => self.number(self.at + 1),
            Some(_) => self.word(),
            None => self.not_json("a value"),
        }
    }

    #[inline(never)]
    fn word(&mut self) -> Result<Value<'a>, Fault> {
        let rest = &self.bytes()[self.at..];
        if self.syntax.single_quotes && rest.starts_with(b"'") {
            return self.quoted(b'\'').map(Value::Text);
        }
        let words: [(&[u8], Value<'a>); 9] = [
            (b"null", Value::Null),
            (b"true", Value::Boolean(true)),
            (b"false", Value::Boolean(false)),
            (b"NaN", Value::NotFinite(f64::NAN)),
            (b"Infinity", Value::NotFinite(f64::INFINITY)),
            (b"+Infinity", Value::NotFinite(f64::INFINITY)),
            (b"-Infinity", Value::NotFinite(f64::NEG_INFINITY)),
            (b"+INF", Value::NotFinite(f64::INFINITY)),
            (b"-INF", Value::NotFinite(f64::NEG_INFINITY)),
        ];
        match words.into_iter().find(|(word, _)| rest.starts_with(word)) {
            Some((_, Value::NotFinite(_))) if !self.syntax.non_numeric_numbers => self.not_json("a value"),
            Some((word, value)) => {
                self.at += word.len();
                Ok(value)
            }
            None => self.not_json("a value"),
        }
    }

    /// Consumes an integer of at most 18 digits, which cannot overflow. For other numbers, returns `None` and consumes
    /// nothing.
    #[inline(always)]
    pub(crate) fn short_integer(&mut self) -> Option<i64> {
        let (value, length) = short_integer(self.rest(), self.syntax.leading_zeros)?;
        self.at += length;
        Some(value)
    }

    /// Consumes a number that [`short_float`] can parse, as most are. For other numbers, returns `None` and consumes
    /// nothing.
    #[inline(always)]
    pub(crate) fn short_float(&mut self) -> Option<f64> {
        let (value, length) = short_float(self.rest(), self.syntax.leading_zeros)?;
        self.at += length;
        Some(value)
    }

    /// Reads a number, whose first digit is at `digits`.
    #[inline(always)]
    fn number(&mut self, digits: usize) -> Result<Value<'a>, Fault> {
        let (start, bytes) = (self.at, self.bytes());
        let after = digits_end(bytes, digits);
        if bytes[digits] == b'0' && after > digits + 1 && !self.syntax.leading_zeros {
            return self.not_json("no digit behind a leading zero");
        }
        self.at = after;
        let mut integer = true;
        if bytes.get(self.at) == Some(&b'.') {
            integer = false;
            self.more_digits(self.at + 1)?;
        }
        if matches!(bytes.get(self.at), Some(b'e' | b'E')) {
            integer = false;
            let sign = usize::from(matches!(bytes.get(self.at + 1), Some(b'+' | b'-')));
            self.more_digits(self.at + 1 + sign)?;
        }
        Ok(Value::Number(self.text_from(start), integer))
    }

    fn more_digits(&mut self, from: usize) -> Result<(), Fault> {
        self.at = digits_end(self.bytes(), from);
        if self.at == from { self.not_json("a digit") } else { Ok(()) }
    }

    /// Reads a text, with the cursor at its opening quote.
    #[inline(always)]
    pub(crate) fn quoted(&mut self, quote: u8) -> Result<Quoted<'a>, Fault> {
        let start = self.at + 1;
        let mut has_escapes = false;
        self.at = start;
        loop {
            self.at = plain_end(self.bytes(), self.at, quote);
            match self.bytes().get(self.at) {
                Some(byte) if *byte == quote => break,
                Some(b'\\') => {
                    has_escapes = true;
                    self.step_over_escape()?;
                }
                Some(_) if self.syntax.control_characters => self.at += 1,
                Some(_) => return self.not_json("no control character in a text"),
                None => return self.not_json("the end of a text"),
            }
        }
        let raw = self.text_from(start);
        self.at += 1;
        Ok(Quoted { raw, has_escapes, position: start - 1 })
    }

    fn step_over_escape(&mut self) -> Result<(), Fault> {
        let length = match self.bytes().get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'\'') if self.syntax.single_quotes => 2,
            Some(b'u')
                if self
                    .bytes()
                    .get(self.at + 2..self.at + 6)
                    .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) =>
            {
                6
            }
            Some(other) if *other != b'u' && self.syntax.any_escape => {
                1 + self.text.get(self.at + 1..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
            }
            _ => return self.not_json("an escape sequence"),
        };
        self.at += length;
        Ok(())
    }

    /// Skips a whole value of any nesting, without recursion. `depth` is the number of objects and arrays around it.
    #[inline(always)]
    pub(crate) fn skip_value(&mut self, depth: usize) -> Result<(), Fault> {
        match self.skip_token()? {
            Some(is_object) => self.skip_inner(is_object, depth),
            None => Ok(()),
        }
    }

    /// Skips a scalar, or an opening bracket; for a bracket, returns true if it opens an object.
    #[inline(always)]
    fn skip_token(&mut self) -> Result<Option<bool>, Fault> {
        match self.peek() {
            Some(b'"') => _ = self.quoted(b'"')?,
            Some(b'0'..=b'9') => _ = self.number(self.at)?,
            Some(bracket @ (b'{' | b'[')) => {
                self.at += 1;
                return Ok(Some(bracket == b'{'));
            }
            _ => _ = self.value()?,
        }
        Ok(None)
    }

    /// Skips the rest of an object or array, with the cursor behind its opening bracket.
    #[inline(never)]
    pub(crate) fn skip_inner(&mut self, mut is_object: bool, depth: usize) -> Result<(), Fault> {
        // One bit per open bracket, set for objects.
        let mut objects = [0_u64; MAX_DEPTH.div_ceil(64)];
        let mut open = 0;
        loop {
            // Reached behind an opening bracket.
            if depth + open >= MAX_DEPTH {
                return Err(self.fault(Reason::TooDeep));
            }
            let bit = 1 << (open % 64);
            objects[open / 64] = objects[open / 64] & !bit | if is_object { bit } else { 0 };
            open += 1;
            let mut more = !self.take(if is_object { b'}' } else { b']' });
            // Reached behind a value if the innermost object or array has no more, else before one.
            loop {
                if !more {
                    open -= 1;
                    if open == 0 {
                        return Ok(());
                    }
                    is_object = objects[(open - 1) / 64] & 1 << ((open - 1) % 64) != 0;
                } else {
                    if is_object {
                        self.name()?;
                    }
                    if let Some(opened) = self.skip_token()? {
                        is_object = opened;
                        break;
                    }
                }
                more = self.more(if is_object { b'}' } else { b']' })?;
            }
        }
    }
}

/// Returns true if Jackson permits this character in names without quotes.
fn names_have(character: char) -> bool {
    character.is_alphabetic()
        || matches!(character, '0'..='9' | '_' | '$' | '@' | '#' | '*' | '-' | '+' | '¢'..='¥' | '\x7f'..='\u{9f}' | '\u{ad}')
}

#[inline(always)]
fn digits_end(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b'0'..=b'9')) {
        at += 1;
    }
    at
}

/// Position of the next quote, backslash or control character, or the end: eight bytes at a time.
#[inline(always)]
fn plain_end(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        let word = u64::from_le_bytes(eight);
        // The borrow can flag only bytes above a true hit, and the lowest hit is taken.
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let hits = zero_in(word ^ (ONES * u64::from(quote))) | zero_in(word ^ (ONES * u64::from(b'\\'))) | control;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if *byte == quote || *byte == b'\\' || *byte < 0x20 {
            break;
        }
        at += 1;
    }
    at
}

/// Unescapes a text, whose escapes the cursor has checked.
pub(crate) fn unescape<'s>(quoted: Quoted<'_>, scratch: &'s mut String) -> Result<&'s str, Fault> {
    scratch.clear();
    let (mut rest, mut pending): (&str, Option<u32>) = (quoted.raw, None);
    let lone = Fault { reason: Reason::LoneSurrogate, position: quoted.position };
    while let Some(at) = rest.find('\\') {
        if at > 0 && pending.is_some() {
            return Err(lone);
        }
        scratch.push_str(&rest[..at]);
        let kind = rest.as_bytes().get(at + 1).copied().unwrap_or_default();
        let (unit, length) = match kind {
            b'b' => (8, 2),
            b'f' => (12, 2),
            b'n' => (10, 2),
            b'r' => (13, 2),
            b't' => (9, 2),
            b'u' => {
                let hex = rest.get(at + 2..at + 6).unwrap_or_default();
                (u32::from_str_radix(hex, 16).unwrap_or_default(), 6)
            }
            other if other.is_ascii() => (u32::from(other), 2),
            _ => {
                let character = rest.get(at + 1..).and_then(|rest| rest.chars().next()).unwrap_or_default();
                (u32::from(character), 1 + character.len_utf8())
            }
        };
        rest = rest.get(at + length..).unwrap_or_default();
        match (pending.take(), unit) {
            (None, 0xD800..0xDC00) => pending = Some(unit),
            (Some(high), 0xDC00..0xE000) => {
                let code = 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00);
                scratch.push(char::from_u32(code).ok_or(lone)?);
            }
            (None, unit) => scratch.push(char::from_u32(unit).ok_or(lone)?),
            (Some(_), _) => return Err(lone),
        }
    }
    if pending.is_some() {
        return Err(lone);
    }
    scratch.push_str(rest);
    Ok(scratch)
}
