//! The settings of SASL: those that belong together, and the credentials that follow from them.

use std::sync::Arc;

use monedula_engine::backoff::Backoff;
use monedula_protocol::sasl::Mechanism;
use monedula_protocol::secret::Secret;
use monedula_protocol::security_protocol::SecurityProtocol;

use super::jaas::{Jaas, Module};
use super::token::{Refresh, TokenProvider, TokenSource};
use super::{MechanismCredentials, Sasl, Token, TokenError};
use super::{aws, kerberos, oauth_settings};
use crate::config_values::{ConfigError, ConfigValues};

/// Amazon's mechanism, which is OAUTHBEARER on the wire.
const AWS_MSK_IAM: &str = "AWS_MSK_IAM";

/// The mechanisms that `sasl.mechanism` may name.
const KNOWN: &str = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM and GSSAPI";

impl Sasl {
    /// The credentials that the settings describe; `None` if `security.protocol` has no SASL.
    pub(crate) fn of(
        values: &ConfigValues,
        protocol: SecurityProtocol,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, ConfigError> {
        if !protocol.has_sasl() {
            warn_of_unused(values, warnings);
            return Ok(None);
        }
        let jaas = jaas(values)?;
        let name = values.text("sasl.mechanism");
        let mechanism = if name == AWS_MSK_IAM { Some(Mechanism::OauthBearer) } else { Mechanism::from_name(&name) };
        let Some(mechanism) = mechanism else {
            return Err(unknown_mechanism(values, &name));
        };
        check_module(values, mechanism, &name, jaas.as_ref())?;
        let credentials = match mechanism {
            Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => {
                password(values, mechanism, jaas.as_ref())?
            }
            Mechanism::OauthBearer => {
                let source = match name == AWS_MSK_IAM {
                    true => Some(aws::msk_iam(values, jaas.as_ref())?),
                    false => oauth_settings::source(values, jaas.as_ref())?,
                };
                let source = source.unwrap_or_else(|| Arc::new(NoSource));
                MechanismCredentials::Token(TokenProvider::new(source, refresh(values)?))
            }
            Mechanism::Gssapi => {
                MechanismCredentials::Kerberos(Arc::new(kerberos::kerberos(values, jaas.as_ref(), warnings)?))
            }
        };
        if mechanism == Mechanism::Plain && !protocol.has_tls() {
            warnings.push(
                "sasl.mechanism=PLAIN with security.protocol=SASL_PLAINTEXT: everybody on the way can read the password; use \
                 SASL_SSL"
                    .into(),
            );
        }
        Ok(Some(Self { mechanism, credentials }))
    }

    /// Checks that a client that logs in with tokens has a source of them.
    pub(crate) fn check_token_source(&self) -> Result<(), ConfigError> {
        match &self.credentials {
            MechanismCredentials::Token(provider) => provider.check(),
            _ => Ok(()),
        }
    }

    /// The same with tokens from `source`; `None` if the mechanism uses no tokens.
    pub(crate) fn with_source(&self, source: Arc<dyn TokenSource>) -> Option<Self> {
        let MechanismCredentials::Token(provider) = &self.credentials else { return None };
        let credentials = MechanismCredentials::Token(provider.with_source(source));
        Some(Self { mechanism: self.mechanism, credentials })
    }
}

fn warn_of_unused(values: &ConfigValues, warnings: &mut Vec<String>) {
    let given: Vec<&str> = values.given_under("sasl.").collect();
    if !given.is_empty() {
        let names = given.join(", ");
        warnings.push(format!(
            "without effect, as the client does not log in without security.protocol=SASL_SSL or SASL_PLAINTEXT: {names}"
        ));
    }
}

/// The token source of a client whose settings name none.
#[derive(Debug)]
struct NoSource;

impl TokenSource for NoSource {
    fn fetch(&self) -> Result<Token, TokenError> {
        Err(TokenError::Refused("the settings name no source of tokens".into()))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let key = "sasl.oauthbearer.token.provider";
        let message = format!(
            "sasl.mechanism=OAUTHBEARER needs a source of tokens: a function or object in Python ({key}), an identity \
             provider or a file (sasl.oauthbearer.token.endpoint.url), a cloud \
             (sasl.oauthbearer.metadata.authentication.type), or, for development, sasl.jaas.config with \
             unsecuredLoginStringClaim_sub"
        );
        Err(ConfigError { key: key.into(), message })
    }

    fn advice(&self) -> &'static str {
        "Set sasl.oauthbearer.token.endpoint.url, or give a source in code"
    }
}

pub(super) fn error(values: &ConfigValues, key: &str, message: String) -> ConfigError {
    ConfigError { key: values.name_of(key).into(), message }
}

fn unknown_mechanism(values: &ConfigValues, name: &str) -> ConfigError {
    let message = match name {
        "" => format!("sasl.mechanism is missing: how to log in, of {KNOWN}. Java's GSSAPI is no default here"),
        name => format!("{}={name:?} is unknown; there are {KNOWN}", values.name_of("sasl.mechanism")),
    };
    error(values, "sasl.mechanism", message)
}

fn jaas(values: &ConfigValues) -> Result<Option<Jaas>, ConfigError> {
    let Some(text) = values.secret("sasl.jaas.config") else { return Ok(None) };
    let read = text.expose_text().ok_or_else(|| "it is not UTF-8".to_owned()).and_then(Jaas::parse);
    let wrong = |reason| {
        let message = format!("sasl.jaas.config cannot be read (its content is not shown): {reason}");
        error(values, "sasl.jaas.config", message)
    };
    read.map(Some).map_err(wrong)
}

fn check_module(
    values: &ConfigValues,
    mechanism: Mechanism,
    name: &str,
    jaas: Option<&Jaas>,
) -> Result<(), ConfigError> {
    let Some(jaas) = jaas else { return Ok(()) };
    let fits = match mechanism {
        Mechanism::Plain => jaas.module == Module::Plain,
        Mechanism::ScramSha256 | Mechanism::ScramSha512 => jaas.module == Module::Scram,
        Mechanism::OauthBearer if name == AWS_MSK_IAM => jaas.module == Module::AwsMskIam,
        Mechanism::OauthBearer => jaas.module == Module::OauthBearer,
        Mechanism::Gssapi => jaas.module == Module::Kerberos,
    };
    match fits {
        true => Ok(()),
        false => {
            let message = format!("sasl.jaas.config has the login module of another mechanism than {name}");
            Err(error(values, "sasl.jaas.config", message))
        }
    }
}

/// User name and password, by Java's or librdkafka's settings.
fn password(
    values: &ConfigValues,
    mechanism: Mechanism,
    jaas: Option<&Jaas>,
) -> Result<MechanismCredentials, ConfigError> {
    let (username, password) = (values.given("sasl.username"), values.secret("sasl.password"));
    if let Some(jaas) = jaas {
        if let Some(double) =
            username.is_some().then_some("sasl.username").or(password.is_some().then_some("sasl.password"))
        {
            let double = values.name_of(double);
            return Err(error(
                values,
                "sasl.jaas.config",
                format!("sasl.jaas.config and {double} say the same; give one of them"),
            ));
        }
        let missing = |option: &str| {
            error(
                values,
                "sasl.jaas.config",
                format!("sasl.jaas.config has no option {option}, which {mechanism} needs"),
            )
        };
        let username = jaas.text("username").filter(|name| !name.is_empty()).ok_or_else(|| missing("username"))?;
        let password =
            jaas.option("password").filter(|password| !password.is_empty()).ok_or_else(|| missing("password"))?;
        let delegation_token = mechanism != Mechanism::Plain
            && jaas.text("tokenauth").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        return checked(values, username.to_owned(), password.clone(), delegation_token);
    }
    let missing = |key: &str| error(values, key, format!("{key} is missing, which sasl.mechanism={mechanism} needs"));
    let username = username.ok_or_else(|| missing("sasl.username"))?;
    let password = password.ok_or_else(|| missing("sasl.password"))?;
    checked(values, username, password, false)
}

fn checked(
    values: &ConfigValues,
    username: String,
    password: Secret,
    delegation_token: bool,
) -> Result<MechanismCredentials, ConfigError> {
    if username.contains('\0') || password.expose().contains(&0) {
        let message = "user name and password cannot contain a NUL character".to_owned();
        return Err(error(values, "sasl.username", message));
    }
    Ok(MechanismCredentials::Password { username, password, delegation_token })
}

fn refresh(values: &ConfigValues) -> Result<Refresh, ConfigError> {
    let seconds = |key: &str| std::time::Duration::from_secs(values.int(key).unsigned_abs());
    Ok(Refresh {
        window_factor: fraction(values, "sasl.login.refresh.window.factor", 0.5, 1.0)?,
        window_jitter: fraction(values, "sasl.login.refresh.window.jitter", 0.0, 0.25)?,
        min_period: seconds("sasl.login.refresh.min.period.seconds"),
        buffer: seconds("sasl.login.refresh.buffer.seconds"),
        backoff: retry_backoff(values),
        patience: values.millis("socket.connection.setup.timeout.ms").mul_f64(0.9),
    })
}

fn retry_backoff(values: &ConfigValues) -> Backoff {
    values.backoff("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms")
}

pub(super) fn fraction(values: &ConfigValues, key: &str, min: f64, max: f64) -> Result<f64, ConfigError> {
    let text = values.text(key);
    let number = text.parse::<f64>().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| error(values, key, format!("{key}={text:?} is not a number of {min} to {max}")))
}

#[cfg(test)]
mod tests {
    use crate::config::{ClientConfig, ConfigError};

    const JAAS: &str =
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"anna\" password=\"canary\";";

    fn parse(settings: &[(&str, &str)]) -> Result<ClientConfig, ConfigError> {
        let always = [("bootstrap.servers", "h:1"), ("security.protocol", "SASL_PLAINTEXT")];
        ClientConfig::parse(always.into_iter().chain(settings.iter().copied()))
    }

    fn who(settings: &[(&str, &str)]) -> String {
        let config = parse(settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
        assert!(!format!("{config:?}").contains("canary"));
        config.sasl.expect("SASL").to_string()
    }

    fn message(settings: &[(&str, &str)]) -> String {
        let error = parse(settings).expect_err("refused");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        error.message
    }

    #[test]
    fn both_families_of_settings_name_user_and_password() {
        let librdkafka = [("sasl.mechanisms", "PLAIN"), ("sasl.username", "anna"), ("sasl.password", " canary ")];
        assert_eq!(who(&librdkafka), "anna with PLAIN");
        assert_eq!(who(&[("sasl.mechanism", "SCRAM-SHA-512"), ("sasl.jaas.config", JAAS)]), "anna with SCRAM-SHA-512");
        let token = JAAS.replace(";", " tokenauth=true;");
        let token = [("sasl.mechanism", "SCRAM-SHA-256"), ("sasl.jaas.config", token.as_str())];
        assert_eq!(who(&token), "the delegation token anna with SCRAM-SHA-256");
    }

    #[test]
    fn the_mechanism_is_named_and_known() {
        assert!(message(&[]).contains("sasl.mechanism is missing"));
        assert!(message(&[("sasl.mechanisms", "SCRAM")]).contains("sasl.mechanisms=\"SCRAM\" is unknown"));
    }

    #[test]
    fn what_is_missing_or_contradicts_is_named_without_its_value() {
        let user = ("sasl.username", "anna");
        assert!(message(&[("sasl.mechanism", "PLAIN"), user]).contains("sasl.password is missing"));
        assert!(message(&[("sasl.mechanism", "PLAIN"), ("sasl.password", "canary")]).contains("sasl.username"));
        let both = [("sasl.mechanism", "SCRAM-SHA-256"), ("sasl.jaas.config", JAAS), ("sasl.password", "canary")];
        assert!(message(&both).contains("say the same"));
        assert!(message(&[("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", JAAS)]).contains("another mechanism"));
        assert!(message(&[("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", "canary")]).contains("login module"));
    }

    #[test]
    fn classes_are_not_loaded_and_say_so() {
        let handler = ("sasl.login.callback.handler.class", "com.example.Handler");
        let error = message(&[("sasl.mechanism", "OAUTHBEARER"), handler]);
        assert!(error.contains("sasl.login.callback.handler.class"), "{error}");
    }

    #[test]
    fn plain_without_tls_is_warned_of() {
        let plain = [("sasl.mechanism", "PLAIN"), ("sasl.username", "anna"), ("sasl.password", "canary")];
        let warnings = parse(&plain).expect("taken").warnings;
        assert!(warnings.iter().any(|warning| warning.contains("SASL_SSL")), "{warnings:?}");
    }

    #[test]
    fn settings_of_sasl_without_sasl_are_warned_of() {
        let warnings = ClientConfig::parse([("bootstrap.servers", "h:1"), ("sasl.password", "canary")]);
        let warnings = warnings.expect("taken").warnings;
        assert!(
            warnings.iter().any(|warning| warning.starts_with("without effect") && warning.contains("sasl.password")),
            "{warnings:?}"
        );
    }

    #[test]
    fn the_url_of_the_token_endpoint_is_checked() {
        let url = |url| {
            let client = [
                ("sasl.oauthbearer.client.id", "id"),
                ("sasl.oauthbearer.client.secret", "canary"),
                ("sasl.mechanism", "OAUTHBEARER"),
            ];
            let settings: Vec<_> = client.into_iter().chain([("sasl.oauthbearer.token.endpoint.url", url)]).collect();
            parse(&settings).map(drop).map_err(|error| error.message)
        };
        assert_eq!(url("https://idp.example/token"), Ok(()));
        assert_eq!(url("file:///var/run/token"), Ok(()));
        assert!(url("http://idp.example/token").expect_err("refused").contains("allow.plain.http"));
        assert!(url("https://me:canary@idp.example/").expect_err("refused").contains("password in it"));
        assert!(url("ftp://idp.example/").expect_err("refused").contains("neither"));
    }
}
