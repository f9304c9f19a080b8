//! `sasl.kerberos.*` of both families of settings, and the options of Java's Krb5LoginModule.

use std::path::PathBuf;

use monedula_gssapi::Identity;

use super::Kerberos;
use super::tickets::Renewal;
use crate::config_values::{ConfigError, ConfigValues};
use crate::sasl::jaas::Jaas;
use crate::sasl::settings::{error, fraction};

/// Kafka's name for its brokers, in librdkafka too; Java's client has no default.
const SERVICE: &str = "kafka";

/// The options that Krb5LoginModule has. Those that are not looked at speak of Java's own prompts and caches of keys.
const OPTIONS: [&str; 15] = [
    "useKeyTab",
    "keyTab",
    "principal",
    "useTicketCache",
    "ticketCache",
    "serviceName",
    "renewTGT",
    "isInitiator",
    "storeKey",
    "refreshKrb5Config",
    "doNotPrompt",
    "debug",
    "useFirstPass",
    "tryFirstPass",
    "clearPass",
];

pub(in crate::sasl) fn kerberos(
    values: &ConfigValues,
    jaas: Option<&Jaas>,
    warnings: &mut Vec<String>,
) -> Result<Kerberos, ConfigError> {
    if values.is_given("sasl.kerberos.kinit.cmd") {
        let name = values.name_of("sasl.kerberos.kinit.cmd");
        warnings.push(format!(
            "{name} is not run: the client gets tickets with sasl.kerberos.keytab by itself, and without one takes those \
             of the ticket cache"
        ));
    }
    let (identity, service) = match jaas {
        Some(jaas) => of_jaas(values, jaas, warnings)?,
        None => (of_settings(values), None),
    };
    let renewal = Renewal {
        window_factor: fraction(values, "sasl.kerberos.ticket.renew.window.factor", 0.0, 1.0)?,
        jitter: fraction(values, "sasl.kerberos.ticket.renew.jitter", 0.0, 1.0)?,
        pause: values.millis("sasl.kerberos.min.time.before.relogin"),
    };
    let named = values.given("sasl.kerberos.service.name");
    let service = match (named, service) {
        (Some(named), Some(other)) if named != other => {
            let message = "sasl.kerberos.service.name and serviceName in sasl.jaas.config differ; give one of them";
            return Err(error(values, "sasl.kerberos.service.name", message.into()));
        }
        (named, other) => named.or(other).unwrap_or_else(|| SERVICE.into()),
    };
    if service.contains(['@', '/', '\0']) {
        let message = format!(
            "sasl.kerberos.service.name={service:?} is not the first part of a principal alone, such as kafka of \
             kafka/broker.example@REALM: the client adds the rest"
        );
        return Err(error(values, "sasl.kerberos.service.name", message));
    }
    Ok(Kerberos::new(service, identity, renewal))
}

fn of_settings(values: &ConfigValues) -> Identity {
    Identity {
        principal: values.given("sasl.kerberos.principal"),
        keytab: values.given("sasl.kerberos.keytab").map(|path| PathBuf::from(without_type(&path))),
        cache: None,
    }
}

/// `FILE:/path` is Kerberos's notation of a keytab, which librdkafka's users know from kinit.
fn without_type(keytab: &str) -> &str {
    keytab.strip_prefix("FILE:").unwrap_or(keytab)
}

fn of_jaas(
    values: &ConfigValues,
    jaas: &Jaas,
    warnings: &mut Vec<String>,
) -> Result<(Identity, Option<String>), ConfigError> {
    let wrong = |message: &str| Err(error(values, "sasl.jaas.config", format!("sasl.jaas.config: {message}")));
    for key in ["sasl.kerberos.keytab", "sasl.kerberos.principal"] {
        if values.given(key).is_some() {
            let name = values.name_of(key);
            return wrong(&format!("it and {name} say who logs in; give one of them"));
        }
    }
    if jaas.prefixed("").any(|(name, _)| !OPTIONS.contains(&name)) {
        return wrong(&format!(
            "it has an option that Krb5LoginModule does not have, or that is not for clients; there are {}",
            OPTIONS.join(", ")
        ));
    }
    let text = |name: &str| jaas.text(name).filter(|value| !value.is_empty()).map(str::to_owned);
    let says = |name: &str| jaas.text(name).map(|value| value.eq_ignore_ascii_case("true"));
    let is_set = |name: &str| says(name) == Some(true);
    if says("isInitiator") == Some(false) {
        return wrong("isInitiator=false is for brokers");
    }
    if is_set("renewTGT") {
        warnings.push(
            "renewTGT of sasl.jaas.config does nothing: whoever fills the ticket cache keeps it fresh; with a keytab the \
             client gets its tickets itself"
                .into(),
        );
    }
    let (principal, service) = (text("principal"), text("serviceName"));
    match (is_set("useKeyTab"), text("keyTab"), is_set("useTicketCache")) {
        (true, Some(keytab), _) => {
            let keytab = Some(PathBuf::from(without_type(&keytab)));
            Ok((Identity { principal, keytab, cache: None }, service))
        }
        (true, None, _) => wrong("useKeyTab=true needs keyTab, the path of the file"),
        (false, _, true) => Ok((Identity { principal, keytab: None, cache: text("ticketCache") }, service)),
        (false, _, false) => wrong(
            "it needs useKeyTab=true with keyTab, or useTicketCache=true: Java would ask for a password otherwise",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::ClientConfig;

    const MODULE: &str = "com.sun.security.auth.module.Krb5LoginModule required";

    fn parse(settings: &[(&str, &str)]) -> Result<ClientConfig, ConfigError> {
        let always =
            [("bootstrap.servers", "h:1"), ("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "GSSAPI")];
        ClientConfig::parse(always.into_iter().chain(settings.iter().copied()))
    }

    fn login(settings: &[(&str, &str)]) -> (String, Identity) {
        let config = parse(settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
        let sasl = config.sasl.expect("SASL");
        let kerberos = sasl.kerberos().expect("Kerberos");
        (kerberos.service.clone(), kerberos.identity.clone())
    }

    fn jaas(options: &str) -> (String, Identity) {
        login(&[("sasl.jaas.config", &format!("{MODULE} {options};"))])
    }

    fn message(settings: &[(&str, &str)]) -> String {
        parse(settings).expect_err("refused").message
    }

    #[test]
    fn without_settings_the_ticket_cache_of_the_process_logs_in_to_kafka() {
        assert_eq!(login(&[]), ("kafka".into(), Identity::default()));
    }

    #[test]
    fn librdkafkas_settings_name_keytab_principal_and_service() {
        let (service, identity) = login(&[
            ("sasl.kerberos.service.name", "streams"),
            ("sasl.kerberos.keytab", "FILE:/etc/anna.keytab"),
            ("sasl.kerberos.principal", "anna@REALM"),
        ]);
        assert_eq!(service, "streams");
        assert_eq!(identity.keytab.as_deref(), Some(Path::new("/etc/anna.keytab")));
        assert_eq!(identity.principal.as_deref(), Some("anna@REALM"));
    }

    #[test]
    fn the_login_module_of_java_names_them_too() {
        let (service, identity) =
            jaas("useKeyTab=true storeKey=true keyTab=\"/a.keytab\" principal=\"anna@R\" serviceName=\"streams\"");
        assert_eq!((service.as_str(), identity.principal.as_deref()), ("streams", Some("anna@R")));
        assert_eq!(identity.keytab.as_deref(), Some(Path::new("/a.keytab")));
        let (service, identity) = jaas("useTicketCache=true ticketCache=\"/tmp/krb5cc_7\" doNotPrompt=true");
        assert_eq!((service.as_str(), identity.cache.as_deref()), ("kafka", Some("/tmp/krb5cc_7")));
        assert_eq!(identity.keytab, None);
    }

    #[test]
    fn a_login_module_that_cannot_log_in_is_an_error() {
        let refused = |options: &str| message(&[("sasl.jaas.config", &format!("{MODULE} {options};"))]);
        assert!(refused("useKeyTab=true").contains("needs keyTab"));
        assert!(refused("storeKey=true").contains("useTicketCache=true"));
        assert!(refused("useTicketCache=true isInitiator=false").contains("brokers"));
        let unknown = refused("useTicketCache=true canary=\"canary\"");
        assert!(unknown.contains("useKeyTab") && !unknown.contains("canary"), "{unknown}");
    }

    #[test]
    fn settings_that_contradict_are_an_error() {
        let cache = format!("{MODULE} useTicketCache=true serviceName=\"a\";");
        let of = |other| message(&[("sasl.jaas.config", &cache), other]);
        assert!(of(("sasl.kerberos.service.name", "b")).contains("differ"));
        assert!(of(("sasl.kerberos.principal", "anna")).contains("sasl.kerberos.principal"));
        assert!(message(&[("sasl.kerberos.service.name", "kafka/h@R")]).contains("first part"));
        assert!(message(&[("sasl.kerberos.ticket.renew.window.factor", "2")]).contains("0 to 1"));
    }

    #[test]
    fn commands_of_kinit_are_not_run_and_a_warning_says_so() {
        let warnings = parse(&[("sasl.kerberos.kinit.cmd", "kinit -k -t %{sasl.kerberos.keytab}")]).expect("taken");
        assert!(warnings.warnings.iter().any(|warning| warning.contains("is not run")), "{:?}", warnings.warnings);
    }
}
