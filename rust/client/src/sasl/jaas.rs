//! `sasl.jaas.config` of Java clients: one login module with its options, as `Module required name="value" ... ;`.
//!
//! No class is loaded: the module's name only decides what its options mean, and a name that is not in the list is an
//! error. (CVE-2023-25194 and CVE-2025-27818 were attacks that made Java load the named class.) No error contains a
//! value, since each may be a password.

use std::iter::Peekable;
use std::str::Chars;

use monedula_protocol::secret::Secret;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Module {
    Plain,
    Scram,
    OauthBearer,
    AwsMskIam,
    Kerberos,
}

const MODULES: [(&str, Module); 5] = [
    ("org.apache.kafka.common.security.plain.PlainLoginModule", Module::Plain),
    ("org.apache.kafka.common.security.scram.ScramLoginModule", Module::Scram),
    ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule", Module::OauthBearer),
    ("software.amazon.msk.auth.iam.IAMLoginModule", Module::AwsMskIam),
    ("com.sun.security.auth.module.Krb5LoginModule", Module::Kerberos),
];

/// Package prefixes under which Spark and Databricks ship the same modules.
const SHADED_PREFIXES: [&str; 2] = ["kafkashaded.", "shadedmskiam."];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Jaas {
    pub(super) module: Module,
    options: Vec<(String, Secret)>,
}

impl Jaas {
    /// Reads the text.
    ///
    /// # Errors
    /// Problem of the text. The message contains no values.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Tokens { characters: text.chars().peekable() };
        let Some(Token::Text(name)) = tokens.next()? else {
            return Err("it begins with the name of a login module".into());
        };
        if tokens.is_before_brace() {
            return Err(
                "it is a section of a JAAS file, such as KafkaClient { ... };: give what stands between the braces, \
                        from the name of the login module to the semicolon behind its options"
                    .into(),
            );
        }
        let name = SHADED_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
        let Some((_, module)) = MODULES.iter().find(|(known, _)| *known == name) else {
            let known = MODULES.map(|(name, _)| name).join(", ");
            return Err(format!("its login module is none of those that are known: {known}"));
        };
        match tokens.next()? {
            Some(Token::Text(flag)) if FLAGS.iter().any(|known| flag.eq_ignore_ascii_case(known)) => {}
            _ => return Err("behind the login module comes required".into()),
        }
        let mut options: Vec<(String, Secret)> = Vec::new();
        loop {
            let name = match tokens.next()? {
                Some(Token::Text(name)) => name,
                Some(Token::End) => break,
                _ => return Err("each option is name=\"value\", and a semicolon ends the last".into()),
            };
            let (Some(Token::Equals), Some(Token::Text(value))) = (tokens.next()?, tokens.next()?) else {
                return Err("an option has no value: each is name=\"value\"".into());
            };
            // As in Java, the last of two options with one name counts.
            options.retain(|(known, _)| *known != name);
            options.push((name, value.into()));
        }
        match tokens.next()? {
            None => Ok(Self { module: *module, options }),
            Some(_) => Err("it has more than one login module".into()),
        }
    }

    pub(super) fn option(&self, name: &str) -> Option<&Secret> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of an option that is no secret.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.option(name).and_then(Secret::expose_text)
    }

    /// The options with this prefix, without the prefix.
    pub(super) fn prefixed<'j>(&'j self, prefix: &'j str) -> impl Iterator<Item = (&'j str, &'j str)> {
        let named = move |(name, value): &'j (String, Secret)| Some((name.strip_prefix(prefix)?, value.expose_text()?));
        self.options.iter().filter_map(named)
    }
}

const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

enum Token {
    Text(String),
    Equals,
    End,
}

/// Splits the text into tokens, as Java's `StreamTokenizer` does for Kafka.
struct Tokens<'t> {
    characters: Peekable<Chars<'t>>,
}

impl Tokens<'_> {
    /// True if the next character but blanks opens a brace.
    fn is_before_brace(&self) -> bool {
        self.characters.clone().find(|character| !character.is_whitespace()) == Some('{')
    }

    fn next(&mut self) -> Result<Option<Token>, String> {
        loop {
            let Some(&first) = self.characters.peek() else { return Ok(None) };
            match first {
                '"' | '\'' => return self.quoted(first).map(|text| Some(Token::Text(text))),
                '=' | ';' => {
                    self.characters.next();
                    return Ok(Some(if first == '=' { Token::Equals } else { Token::End }));
                }
                '/' => self.comment()?,
                blank if blank.is_whitespace() || blank.is_control() => _ = self.characters.next(),
                word if is_word(word) => return Ok(Some(Token::Text(self.word()))),
                _ => {
                    return Err("a value with other characters than letters, digits, -, _, $ and . needs quotes".into());
                }
            }
        }
    }

    fn word(&mut self) -> String {
        let mut text = String::new();
        while let Some(character) = self.characters.next_if(|&character| is_word(character)) {
            text.push(character);
        }
        text
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.characters.next();
        let mut text = String::new();
        loop {
            match self.characters.next() {
                Some(end) if end == quote => return Ok(text),
                None | Some('\n' | '\r') => return Err("a quote has no end on its line".into()),
                Some('\\') => text.push(self.escaped()?),
                Some(character) => text.push(character),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let character = self.characters.next().ok_or("a quote has no end on its line")?;
        Ok(match character {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            first @ '0'..='7' => self.octal(first),
            other => other,
        })
    }

    /// An octal escape: at most three digits, of which the first is at most 3 if there are three.
    fn octal(&mut self, first: char) -> char {
        let mut code = first.to_digit(8).unwrap_or_default();
        let most = if first <= '3' { 2 } else { 1 };
        for _ in 0..most {
            let Some(digit) = self.characters.next_if(|digit| digit.is_digit(8)) else { break };
            code = code * 8 + digit.to_digit(8).unwrap_or_default();
        }
        char::from_u32(code).unwrap_or_default()
    }

    fn comment(&mut self) -> Result<(), String> {
        self.characters.next();
        match self.characters.next() {
            Some('/') => {
                while self.characters.next_if(|&character| character != '\n').is_some() {}
                Ok(())
            }
            Some('*') => {
                let mut before = ' ';
                for character in self.characters.by_ref() {
                    if before == '*' && character == '/' {
                        return Ok(());
                    }
                    before = character;
                }
                Err("a comment has no end".into())
            }
            _ => Err("a value with a slash needs quotes".into()),
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '$' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";

    fn option(text: &str, name: &str) -> String {
        let jaas = Jaas::parse(&format!("{PLAIN} required {text};")).unwrap_or_else(|error| panic!("{text}: {error}"));
        jaas.text(name).unwrap_or_else(|| panic!("{text}: no {name}")).to_owned()
    }

    #[test]
    fn the_example_of_kafkas_documentation_is_read() {
        let text = "org.apache.kafka.common.security.scram.ScramLoginModule required \\\n".replace("\\\n", "\n");
        let jaas =
            Jaas::parse(&(text + "username=\"alice\" \n password=\"alice-secret\" tokenauth=true;")).expect("read");
        assert_eq!(jaas.module, Module::Scram);
        assert_eq!((jaas.text("username"), jaas.text("tokenauth")), (Some("alice"), Some("true")));
        assert_eq!(jaas.option("password"), Some(&"alice-secret".into()));
        assert!(!format!("{jaas:?}").contains("alice-secret"));
    }

    #[test]
    fn quotes_escapes_comments_and_words_are_those_of_java() {
        assert_eq!(option(r#"password="a\"b\\c\td\101\0""#, "password"), "a\"b\\c\tdA\0");
        assert_eq!(option(r#"password='a"b'"#, "password"), "a\"b");
        assert_eq!(option("password=plain-word_1.$", "password"), "plain-word_1.$");
        assert_eq!(option("/* one */ password = \"x\" // another\n", "password"), "x");
        assert_eq!(option("password=\"1\" password=\"2\"", "password"), "2");
        assert_eq!(option("password=\" ;=\"", "password"), " ;=");
    }

    #[test]
    fn modules_of_shaded_jars_are_known() {
        let text = format!("kafkashaded.{PLAIN} required username=\"u\" password=\"p\";");
        assert_eq!(Jaas::parse(&text).expect("read").module, Module::Plain);
    }

    #[test]
    fn other_modules_are_refused_and_nothing_of_them_is_repeated() {
        for module in ["com.sun.security.auth.module.JndiLoginModule", "canary", "canary.PlainLoginModule"] {
            let error = Jaas::parse(&format!("{module} required user.provider.url=\"canary\";")).expect_err("refused");
            assert!(error.contains("PlainLoginModule") && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_section_of_a_jaas_file_is_named_as_one() {
        for text in ["KafkaClient {M required;};", "KafkaClient\n{\n  M required password=\"canary\";\n};"] {
            let error = Jaas::parse(&text.replace('M', PLAIN)).expect_err(text);
            assert!(error.contains("between the braces") && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn what_java_does_not_take_is_an_error_without_values() {
        for text in [
            "",
            "canary",
            "M;",
            "M required",
            "M required password=\"canary\"",
            "M required password=\"canary;",
            "M required password=\"canary\n\";",
            "M required password;",
            "M required password=;",
            "M required =canary;",
            "M required password canary;",
            "M required password=can/ary;",
            "M required password=canary@;",
            "M sometimes password=\"canary\";",
            "M required password=\"canary\"; M required password=\"canary\";",
            "M required /* canary",
        ] {
            let error = Jaas::parse(&text.replace('M', PLAIN)).expect_err(text);
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn arbitrary_text_is_read_or_refused_within_its_size() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            for text in [text.clone(), format!("{PLAIN} required {text}")] {
                if let Ok(jaas) = Jaas::parse(&text) {
                    let bytes: usize = jaas.options.iter().map(|(name, value)| name.len() + value.expose().len()).sum();
                    assert!(bytes <= 2 * text.len());
                }
            }
        });
    }
}
