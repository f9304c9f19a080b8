//! Assertions (RFC 7523): JWTs that the client signs, or that someone else keeps fresh in a file.

use std::path::{Path, PathBuf};

use monedula_protocol::base64;
use monedula_protocol::secret::Secret;
use serde_json::{Map, Value};

use super::jwt::{self, Algorithm};
use super::sources::read_small;
use crate::wall_clock::now_ms;

#[derive(Debug)]
pub(super) enum Assertion {
    File(PathBuf),
    Signed {
        algorithm: Algorithm,
        key: SigningKey,
        passphrase: Option<Secret>,
        template: Option<PathBuf>,
        claims: Claims,
    },
}

/// The private key of assertions, as PEM.
#[derive(Debug)]
pub(super) enum SigningKey {
    /// Read again for each assertion.
    File(PathBuf),
    Text(Secret),
}

#[derive(Debug)]
pub(super) struct Claims {
    /// Claims that count unless the template or a setting has others.
    pub(super) defaults: Map<String, Value>,
    pub(super) audience: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) lifetime_seconds: i64,
    pub(super) not_before_seconds: i64,
    pub(super) has_id: bool,
}

impl Assertion {
    /// # Errors
    /// If a file cannot be read, or the key in it cannot be used.
    pub(super) fn make(&self) -> Result<String, String> {
        match self {
            Self::File(path) => Ok(read_small(path, "the assertion")?.to_string()),
            Self::Signed { algorithm, key, passphrase, template, claims } => {
                let Template { header, payload } =
                    template.as_deref().map(read_template).transpose()?.unwrap_or_default();
                let claims = claims.at(now_ms() / 1000, payload);
                let sign = |pem: &[u8]| jwt::signed(*algorithm, pem, passphrase.as_ref(), header, &claims);
                match key {
                    SigningKey::File(path) => {
                        let pem = read_small(path, "the private key")?;
                        sign(pem.as_bytes()).map_err(|reason| format!("{}: {reason}", path.display()))
                    }
                    SigningKey::Text(pem) => sign(pem.expose()),
                }
            }
        }
    }
}

/// What all assertions of a client have in common, as Java has it.
#[derive(Default)]
struct Template {
    header: Map<String, Value>,
    payload: Map<String, Value>,
}

fn read_template(path: &Path) -> Result<Template, String> {
    let wrong = |what: &str| format!("the template of assertions in {} {what}", path.display());
    let text = read_small(path, "the template of assertions")?;
    let template: Map<String, Value> = serde_json::from_str(&text).map_err(|_| wrong("is no JSON object"))?;
    if let Some(other) = template.keys().find(|name| *name != "header" && *name != "payload") {
        return Err(wrong(&format!("has {other:?}, where there are header and payload")));
    }
    let part = |name: &str| match template.get(name) {
        None => Ok(Map::new()),
        Some(Value::Object(part)) => Ok(part.clone()),
        Some(_) => Err(wrong(&format!("has a {name} that is no JSON object"))),
    };
    Ok(Template { header: part("header")?, payload: part("payload")? })
}

impl Claims {
    /// The claims of an assertion that is made now, with those of its template.
    fn at(&self, now: i64, template: Map<String, Value>) -> Map<String, Value> {
        let mut claims = self.defaults.clone();
        claims.extend(template);
        let texts = [("aud", &self.audience), ("iss", &self.issuer), ("sub", &self.subject)];
        for (name, text) in texts {
            if let Some(text) = text {
                claims.insert(name.into(), text.clone().into());
            }
        }
        claims.insert("iat".into(), now.into());
        claims.insert("nbf".into(), (now - self.not_before_seconds).into());
        claims.insert("exp".into(), (now + self.lifetime_seconds).into());
        if self.has_id {
            let mut id = [0; 16];
            if rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut id).is_ok() {
                claims.insert("jti".into(), base64::encode_url_safe(&id).into());
            }
        }
        claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assertion_is_signed_with_the_claims_of_the_settings() {
        let claims = Claims {
            defaults: Map::new(),
            audience: Some("https://idp".into()),
            issuer: Some("me".into()),
            subject: None,
            lifetime_seconds: 300,
            not_before_seconds: 60,
            has_id: true,
        };
        let made = claims.at(1000, Map::new());
        assert_eq!(made["aud"], "https://idp");
        assert_eq!((&made["nbf"], &made["exp"], &made["iat"]), (&940.into(), &1300.into(), &1000.into()));
        assert!(made.contains_key("jti") && !made.contains_key("sub"));
        assert_ne!(made["jti"], claims.at(1000, Map::new())["jti"]);
    }

    #[test]
    fn claims_of_a_setting_count_before_those_of_the_template_and_these_before_the_defaults() {
        let object = |value: Value| value.as_object().cloned().expect("an object");
        let claims = Claims {
            defaults: object(serde_json::json!({"aud": "default", "iss": "default", "sub": "default"})),
            audience: Some("setting".into()),
            issuer: None,
            subject: None,
            lifetime_seconds: 300,
            not_before_seconds: 0,
            has_id: false,
        };
        let made =
            claims.at(1000, object(serde_json::json!({"aud": "template", "iss": "template", "exp": 5, "more": [1]})));
        assert_eq!([&made["aud"], &made["iss"], &made["sub"]], ["setting", "template", "default"]);
        assert_eq!((&made["exp"], &made["more"]), (&1300.into(), &serde_json::json!([1])));
    }
}
