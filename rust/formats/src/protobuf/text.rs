//! Parser of `.proto` texts: it reads the messages, fields and enums. Services, fields of extensions, and options that
//! do not affect the encoding are skipped.

use super::definition::{Enum, Features, Field, File, Label, MAX_DEPTH, Message};
use super::schema;

/// Parses a file; an error has the line of the unexpected token.
pub(crate) fn parse(name: &str, text: &str) -> Result<File, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, are_labelled: true };
    let mut file = File { name: name.to_owned(), syntax: "proto2".to_owned(), ..File::default() };
    parser.file(&mut file).map_err(|reason| format!("line {}: {reason}", parser.line()))?;
    Ok(file)
}

/// Suffix of a field's name that makes the name of its map entry, which no message in a text can have.
pub(crate) const MAP_ENTRY: &str = "<>";

/// Token: a dotted name, a number, a quoted text, or one other character.
struct Token<'t> {
    text: &'t str,
    line: usize,
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), text.trim_start_matches('\u{feff}'), 1);
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
        let length = match first {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => {
                rest[2..].find("*/").ok_or_else(|| format!("line {line}: a comment that does not end"))? + 4
            }
            '"' | '\'' => quoted(rest, first).ok_or_else(|| format!("line {line}: a text that does not end"))?,
            _ if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        if !first.is_whitespace() && !token.starts_with("//") && !token.starts_with("/*") {
            tokens.push(Token { text: token, line });
        }
        line += token.matches('\n').count();
        rest = behind;
    }
    Ok(tokens)
}

fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return None,
            _ if letter == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    /// True if every field needs a label, as in proto2.
    are_labelled: bool,
}

type Parsed<T = ()> = Result<T, String>;

impl<'t> Parser<'t> {
    fn line(&self) -> usize {
        let last = self.at.saturating_sub(1);
        self.tokens.get(last).map_or(1, |token| token.line)
    }

    fn peek(&self) -> &'t str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    fn next(&mut self) -> Parsed<&'t str> {
        let token = self.tokens.get(self.at).ok_or("the text ends too early")?;
        self.at += 1;
        Ok(token.text)
    }

    fn expect(&mut self, wanted: &str) -> Parsed {
        match self.next()? {
            found if found == wanted => Ok(()),
            found => Err(format!("expected {wanted:?}, and not {found:?}")),
        }
    }

    fn name(&mut self) -> Parsed<String> {
        match self.next()? {
            name if name.starts_with(|letter: char| letter.is_ascii_alphabetic() || "_.".contains(letter)) => {
                Ok(name.to_owned())
            }
            other => Err(format!("expected a name, and not {other:?}")),
        }
    }

    /// Parses a qualified name, which may have white space and line breaks around its dots.
    fn type_name(&mut self) -> Parsed<String> {
        let mut name = self.name()?;
        while name.ends_with('.') || self.peek().starts_with('.') {
            name += self.next()?;
        }
        Ok(name)
    }

    fn text(&mut self) -> Parsed<String> {
        let text = self.next()?;
        let inner = text.strip_prefix(['"', '\'']).and_then(|text| text.strip_suffix(['"', '\'']));
        inner.map(str::to_owned).ok_or_else(|| format!("expected a text in quotes, and not {text:?}"))
    }

    fn number(&mut self) -> Parsed<i64> {
        let is_negative = self.peek() == "-";
        if is_negative {
            self.at += 1;
        }
        let text = self.next()?;
        let lower = text.to_ascii_lowercase();
        let parsed = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
            (Some(hex), _) => i64::from_str_radix(hex, 16),
            (None, Some(octal)) if !octal.is_empty() => i64::from_str_radix(octal, 8),
            _ => lower.parse(),
        };
        let number = parsed.map_err(|_| format!("expected a whole number, and not {text:?}"))?;
        Ok(if is_negative { -number } else { number })
    }

    /// Skips a statement: up to its semicolon, or the end of its block.
    fn skip(&mut self) -> Parsed {
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                "{" | "[" | "(" => depth += 1,
                "]" | ")" => depth = depth.saturating_sub(1),
                "}" if depth <= 1 => return Ok(()),
                "}" => depth -= 1,
                ";" if depth == 0 => return Ok(()),
                _ => {}
            }
        }
    }

    fn file(&mut self, file: &mut File) -> Parsed {
        while self.at < self.tokens.len() {
            match self.next()? {
                "syntax" => {
                    self.expect("=")?;
                    file.syntax = self.text()?;
                    if !matches!(&*file.syntax, "proto2" | "proto3") {
                        return Err(format!("there is no syntax {:?}", file.syntax));
                    }
                    self.are_labelled = file.syntax == "proto2";
                    self.expect(";")?;
                }
                "edition" => {
                    (file.syntax, self.are_labelled) = ("editions".to_owned(), false);
                    self.expect("=")?;
                    // Each edition has its own defaults, so an unknown edition cannot be read.
                    match &*self.text()? {
                        "2023" | "2024" => self.expect(";")?,
                        other => return Err(format!("the edition {other:?} is not known; 2023 and 2024 are")),
                    }
                }
                "package" => {
                    file.package = self.type_name()?;
                    self.expect(";")?;
                }
                "import" => {
                    let place = file.imports.len() as u64;
                    match self.peek() {
                        "public" => file.public.push(place),
                        "weak" => file.weak.push(place),
                        _ => {}
                    }
                    if matches!(self.peek(), "public" | "weak" | "option") {
                        self.at += 1;
                    }
                    file.imports.push(self.text()?);
                    self.expect(";")?;
                }
                "option" => file.features = self.option(";")?.within(file.features),
                "message" => file.messages.push(self.message(0)?),
                "enum" => file.enums.push(self.enumeration()?),
                "service" => {
                    file.has_others = true;
                    self.skip()?;
                }
                "extend" => {
                    file.has_others = true;
                    file.messages.extend(self.extension(0)?);
                }
                "export" | "local" if matches!(self.peek(), "message" | "enum") => {}
                ";" => {}
                other => return Err(format!("expected a declaration, and not {other:?}")),
            }
        }
        Ok(())
    }

    /// Parses options up to this closing token, and returns the features among them.
    fn option(&mut self, end: &str) -> Parsed<Features> {
        let (mut features, mut depth) = (Features::default(), 0_usize);
        loop {
            let token = self.next()?;
            match token {
                _ if token == end && depth == 0 => return Ok(features),
                "{" | "[" | "(" => depth += 1,
                "}" | "]" | ")" => depth = depth.saturating_sub(1),
                "features" if depth == 0 && self.peek() == "=" => {
                    self.at += 1;
                    features = self.feature_set()?.within(features);
                }
                "packed" if depth == 0 && self.peek() == "=" => {
                    self.at += 1;
                    features.repeated = if self.next()? == "true" { 1 } else { 2 };
                }
                // Features of one language have brackets behind the dot.
                _ if depth == 0 && token.starts_with("features.") && self.peek() == "=" => {
                    self.at += 1;
                    set_feature(&mut features, &token["features.".len()..], self.next()?);
                }
                _ => {}
            }
        }
    }

    /// Parses features that are set together, as in `{ field_presence: IMPLICIT }`.
    fn feature_set(&mut self) -> Parsed<Features> {
        let (mut features, mut depth) = (Features::default(), 0_usize);
        self.expect("{")?;
        loop {
            match self.next()? {
                "}" if depth == 0 => return Ok(features),
                "{" | "[" => depth += 1,
                "}" | "]" => depth = depth.saturating_sub(1),
                name if depth == 0 && self.peek() == ":" => {
                    self.at += 1;
                    // Features of one language are a block, which is skipped.
                    if !matches!(self.peek(), "{" | "[") {
                        set_feature(&mut features, name, self.next()?);
                    }
                }
                _ => {}
            }
        }
    }

    fn message(&mut self, depth: usize) -> Parsed<Message> {
        let name = self.name()?;
        self.expect("{")?;
        self.body(Message { name, ..Message::default() }, depth)
    }

    fn body(&mut self, mut message: Message, depth: usize) -> Parsed<Message> {
        if depth == MAX_DEPTH {
            return Err("messages are declared too deep in messages".to_owned());
        }
        loop {
            match self.next()? {
                "}" => return Ok(message),
                // Visibility of a type does not affect the encoding.
                "export" | "local"
                    if matches!(self.peek(), "message" | "enum")
                        && self.tokens.get(self.at + 2).is_some_and(|token| token.text == "{") => {}
                "message" if self.is_block() => message.messages.push(self.message(depth + 1)?),
                "enum" if self.is_block() => message.enums.push(self.enumeration()?),
                "oneof" if self.is_block() => self.oneof(&mut message, depth)?,
                "option" => message.features = self.option(";")?.within(message.features),
                "extend" if self.tokens.get(self.at + 1).is_some_and(|token| token.text == "{") => {
                    message.messages.extend(self.extension(depth)?);
                }
                "reserved" | "extensions" if !matches!(self.tokens.get(self.at + 1), Some(token) if token.text == "=") =>
                {
                    self.skip()?;
                }
                ";" => {}
                first => {
                    let label = match first {
                        "optional" => Label::Optional,
                        "required" => Label::Required,
                        "repeated" => Label::Repeated,
                        _ => Label::None,
                    };
                    if label == Label::None {
                        self.at -= 1;
                    }
                    let field = self.field(&mut message, label, depth)?;
                    if self.are_labelled && field.label == Label::None {
                        return Err(format!(
                            "the field {} of proto2 is neither optional, required nor repeated; a file of proto3 begins \
                             with syntax = \"proto3\";",
                            field.name
                        ));
                    }
                    message.fields.push(field);
                }
            }
        }
    }

    /// Messages of the groups among the fields of an `extend`: they belong to the scope around it, so they count there.
    /// The fields belong to another message, and are not decoded.
    fn extension(&mut self, depth: usize) -> Parsed<Vec<Message>> {
        self.type_name()?;
        self.expect("{")?;
        let mut scope = Message::default();
        while self.peek() != "}" {
            if matches!(self.peek(), ";" | "optional" | "required" | "repeated") {
                self.at += 1;
                continue;
            }
            self.field(&mut scope, Label::None, depth)?;
        }
        self.expect("}")?;
        Ok(scope.messages)
    }

    fn oneof(&mut self, message: &mut Message, depth: usize) -> Parsed {
        let number = message.oneofs.len() as u32;
        message.oneofs.push(self.name()?);
        self.expect("{")?;
        while self.peek() != "}" {
            if self.peek() == "option" {
                self.at += 1;
                self.option(";")?;
                continue;
            }
            let mut field = self.field(message, Label::None, depth)?;
            field.oneof = Some(number);
            message.fields.push(field);
        }
        self.expect("}")
    }

    /// Returns true if a name and a block follow, rather than a field whose type has this keyword as its name.
    fn is_block(&self) -> bool {
        self.tokens.get(self.at + 1).is_some_and(|token| token.text == "{")
    }

    fn field(&mut self, message: &mut Message, label: Label, depth: usize) -> Parsed<Field> {
        let mut field = Field { label, type_name: self.type_name()?, ..Field::default() };
        if field.type_name == "map" && self.peek() == "<" {
            return self.map(message, field);
        }
        field.name = self.name()?;
        self.expect("=")?;
        field.number = self.number()?;
        if field.type_name == "group" {
            let name = std::mem::take(&mut field.name);
            if self.peek() == "[" {
                self.at += 1;
                field.features = self.option("]")?;
            }
            self.expect("{")?;
            let group = self.body(Message { name: name.clone(), ..Message::default() }, depth + 1)?;
            message.messages.push(group);
            return Ok(Field { name: name.to_ascii_lowercase(), kind: 10, type_name: name, ..field });
        }
        field.kind = scalar(&field.type_name);
        self.end_of_field(&mut field)?;
        Ok(field)
    }

    fn map(&mut self, message: &mut Message, mut field: Field) -> Parsed<Field> {
        self.expect("<")?;
        let key = self.name()?;
        self.expect(",")?;
        let value = self.type_name()?;
        self.expect(">")?;
        field.name = self.name()?;
        self.expect("=")?;
        field.number = self.number()?;
        self.end_of_field(&mut field)?;
        let of = |name: &str, number, type_name: String| {
            let kind = scalar(&type_name);
            Field { name: name.to_owned(), number, kind, type_name, ..Field::default() }
        };
        // Names in texts cannot contain this sign, so the entry's name is unique.
        let entry = format!("{}{MAP_ENTRY}", field.name);
        message.messages.push(Message {
            name: entry.clone(),
            fields: vec![of("key", 1, key), of("value", 2, value)],
            is_map_entry: true,
            ..Message::default()
        });
        Ok(Field { label: Label::Repeated, type_name: entry, ..field })
    }

    fn end_of_field(&mut self, field: &mut Field) -> Parsed {
        if self.peek() == "[" {
            self.at += 1;
            field.features = self.option("]")?;
        }
        self.expect(";")
    }

    fn enumeration(&mut self) -> Parsed<Enum> {
        let mut read = Enum { name: self.name()?, ..Enum::default() };
        self.expect("{")?;
        loop {
            match self.next()? {
                "}" => return Ok(read),
                "option" if self.peek() != "=" => read.features = self.option(";")?.within(read.features),
                "reserved" if self.peek() != "=" => self.skip()?,
                ";" => {}
                name => {
                    self.expect("=")?;
                    let number = i32::try_from(self.number()?).map_err(|_| format!("{name} is beyond 32 bits"))?;
                    read.values.push((name.to_owned(), number));
                    if self.peek() == "[" {
                        self.at += 1;
                        self.option("]")?;
                    }
                    self.expect(";")?;
                }
            }
        }
    }
}

fn set_feature(features: &mut Features, name: &str, value: &str) {
    match (name, value) {
        ("field_presence", "EXPLICIT") => features.presence = 1,
        ("field_presence", "IMPLICIT") => features.presence = 2,
        ("field_presence", "LEGACY_REQUIRED") => features.presence = 3,
        ("enum_type", "OPEN") => features.enum_type = 1,
        ("enum_type", "CLOSED") => features.enum_type = 2,
        ("repeated_field_encoding", "PACKED") => features.repeated = 1,
        ("repeated_field_encoding", "EXPANDED") => features.repeated = 2,
        ("message_encoding", "LENGTH_PREFIXED") => features.encoding = 1,
        ("message_encoding", "DELIMITED") => features.encoding = 2,
        _ => {}
    }
}

/// A text without comments, one statement a line.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let (mut lines, mut line, mut depth, mut inner) = (String::new(), Vec::new(), 0_usize, 0_usize);
    let mut end = |line: &mut Vec<&str>, depth: usize| {
        lines.extend(std::iter::repeat_n("  ", depth));
        joined(line, &mut lines);
        lines.push('\n');
        line.clear();
    };
    for Token { text: token, line: number } in tokens(text)? {
        let is_sign = |letter: char| letter.is_ascii_alphanumeric() || "_.\"'{}[]()<>=;,:-+/".contains(letter);
        if !token.starts_with(is_sign) {
            return Err(format!("line {number}: {token:?} is not expected"));
        }
        // The value of an option may have braces, and is one statement.
        let is_inline = inner > 0 || line.first() == Some(&"option");
        match token {
            "[" | "(" => inner += 1,
            "{" if is_inline => inner += 1,
            "]" | ")" => inner = inner.saturating_sub(1),
            "}" if inner > 0 => inner -= 1,
            "}" if !is_inline => depth = depth.saturating_sub(1),
            ";" if line.is_empty() => continue,
            _ => {}
        }
        line.push(token);
        if (token == "}" && !is_inline) || (token == ";" && inner == 0) {
            end(&mut line, depth);
        } else if token == "{" && !is_inline {
            end(&mut line, depth);
            depth += 1;
        }
    }
    if !line.is_empty() {
        end(&mut line, 0);
    }
    Ok(lines)
}

fn joined(tokens: &[&str], out: &mut String) {
    let mut before = "";
    for token in tokens {
        let is_tight = before.is_empty()
            || matches!(*token, ";" | "," | ">" | "]" | ")")
            || matches!(before, "<" | "[" | "(" | "-")
            || (*token == "<" && before == "map");
        out.push_str(if is_tight { "" } else { " " });
        out.push_str(token);
        before = token;
    }
}

/// The name that compilers give to the entries of a map: `ByNameEntry` of the field `by_name`.
pub(crate) fn entry_name(field: &str) -> String {
    let mut name = String::new();
    for word in field.split('_') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name + "Entry"
}

/// The number of a type in descriptors; 0 for what is no scalar.
fn scalar(name: &str) -> u64 {
    let is_called = |number: &u64| schema::scalar(*number).is_some_and(|kind| kind.name() == name);
    (1..19).find(is_called).unwrap_or(0)
}

/// Text of a file that comes with every compiler, if it declares messages that values are made of.
pub(crate) fn well_known(name: &str) -> Option<String> {
    let messages = match name.strip_prefix("google/protobuf/")? {
        "timestamp.proto" => "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
        "duration.proto" => "message Duration { int64 seconds = 1; int32 nanos = 2; }",
        "any.proto" => "message Any { string type_url = 1; bytes value = 2; }",
        "empty.proto" => "message Empty {}",
        "source_context.proto" => "message SourceContext { string file_name = 1; }",
        "field_mask.proto" => "message FieldMask { repeated string paths = 1; }",
        "struct.proto" => {
            "message Struct { map<string, Value> fields = 1; }
             message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3;
                                          bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } }
             enum NullValue { NULL_VALUE = 0; }
             message ListValue { repeated Value values = 1; }"
        }
        "wrappers.proto" => {
            "message DoubleValue { double value = 1; } message FloatValue { float value = 1; }
             message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; }
             message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; }
             message BoolValue { bool value = 1; } message StringValue { string value = 1; }
             message BytesValue { bytes value = 1; }"
        }
        _ => return None,
    };
    Some(format!("syntax = \"proto3\"; package google.protobuf; {messages}"))
}
