//! AWS's Signature Version 4, as far as a login needs it: a query that is signed (presigned URL), and a form that is
//! posted.

use aws_lc_rs::{digest, hmac};
use monedula_protocol::secret::Secret;

use super::credentials::AwsCredentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a signature is for.
pub(super) struct Signer<'a> {
    pub(super) credentials: &'a AwsCredentials,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    /// Time of the signature, as `20150830T123600Z`.
    pub(super) at: &'a str,
}

impl Signer<'_> {
    /// The signed query of `GET https://host/` with these parameters, which are sorted here.
    pub(super) fn presigned_query(
        &self,
        host: &str,
        path: &str,
        parameters: &[(&str, &str)],
        (life_seconds, payload_hash): (u32, &str),
    ) -> String {
        let (life, credential) =
            (life_seconds.to_string(), format!("{}/{}", self.credentials.access_key_id, self.scope()));
        let mut all = vec![
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", credential.as_str()),
            ("X-Amz-Date", self.at),
            ("X-Amz-Expires", life.as_str()),
            ("X-Amz-SignedHeaders", "host"),
        ];
        all.extend(self.session_token().map(|token| ("X-Amz-Security-Token", token)));
        all.extend(parameters);
        let query = query(all);
        let signature = self.sign(&format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\n{payload_hash}"));
        format!("{query}&X-Amz-Signature={signature}")
    }

    /// The header `Authorization` of a request whose headers these are: lower case, sorted, `host` and `x-amz-date`
    /// among them.
    pub(super) fn authorization(
        &self,
        (method, path, query): (&str, &str, &str),
        headers: &[(&str, &str)],
        payload: &[u8],
    ) -> Secret {
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let hash = hex(digest::digest(&digest::SHA256, payload).as_ref());
        let signature = self.sign(&format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{hash}"));
        let id = &self.credentials.access_key_id;
        format!("{ALGORITHM} Credential={id}/{}, SignedHeaders={names}, Signature={signature}", self.scope()).into()
    }

    pub(super) fn session_token(&self) -> Option<&str> {
        self.credentials.session_token.as_ref().and_then(Secret::expose_text)
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date(), self.region, self.service)
    }

    fn date(&self) -> &str {
        self.at.get(..8).unwrap_or_default()
    }

    fn sign(&self, canonical: &str) -> String {
        let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let text = format!("{ALGORITHM}\n{}\n{}\n{hash}", self.at, self.scope());
        let mut key = Secret::from([b"AWS4", self.credentials.secret_access_key.expose()].concat());
        for part in [self.date(), self.region, self.service, "aws4_request"] {
            key = Secret::new(keyed(&key, part).as_ref());
        }
        hex(keyed(&key, &text).as_ref())
    }
}

fn keyed(key: &Secret, text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.expose()), text.as_bytes())
}

/// Hash of a request without a body.
pub(super) const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Parameters as a query or form, sorted by their encoded names.
pub(super) fn query(parameters: Vec<(&str, &str)>) -> String {
    let mut pairs: Vec<(String, String)> =
        parameters.into_iter().map(|(name, value)| (encoded(name), encoded(value))).collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Everything but letters, digits and `-._~` in hexadecimal (RFC 3986): a form's plus for a blank is another signature.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// AWS's own examples: those of its test suite (`aws-sig-v4-test-suite`), and that of a presigned URL in the
/// documentation of S3.
#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(id: &str, secret: &str) -> AwsCredentials {
        AwsCredentials {
            access_key_id: id.into(),
            secret_access_key: secret.into(),
            session_token: None,
            expires_at_ms: i64::MAX,
        }
    }

    fn of_suite(request: (&str, &str, &str), headers: &[(&str, &str)], payload: &[u8]) -> String {
        let credentials = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let at = "20150830T123600Z";
        let signer = Signer { credentials: &credentials, region: "us-east-1", service: "service", at };
        let header = signer.authorization(request, headers, payload);
        let header = header.expose_text().expect("text").to_owned();
        assert!(!format!("{credentials:?}").contains("wJalrX"));
        assert!(
            header.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ")
        );
        header.rsplit_once('=').expect("a signature").1.to_owned()
    }

    const HEADERS: [(&str, &str); 2] = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];

    #[test]
    fn the_test_suite_of_aws_has_the_same_signatures() {
        assert_eq!(
            of_suite(("GET", "/", ""), &HEADERS, b""),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        );
        assert_eq!(
            of_suite(("GET", "/", &query(vec![("Param2", "value2"), ("Param1", "value1")])), &HEADERS, b""),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        );
        let form = [("content-type", "application/x-www-form-urlencoded"), HEADERS[0], HEADERS[1]];
        assert_eq!(
            of_suite(("POST", "/", ""), &form, b"Param1=value1"),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        );
    }

    #[test]
    fn the_presigned_url_of_s3s_documentation_has_the_same_signature() {
        let credentials = credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let at = "20130524T000000Z";
        let signer = Signer { credentials: &credentials, region: "us-east-1", service: "s3", at };
        let host = "examplebucket.s3.amazonaws.com";
        let query = signer.presigned_query(host, "/test.txt", &[], (86_400, "UNSIGNED-PAYLOAD"));
        assert_eq!(
            query,
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }

    #[test]
    fn a_session_token_is_signed_with_the_query() {
        let session = AwsCredentials { session_token: Some("to/ken=".into()), ..credentials("id", "key") };
        let at = "20130524T000000Z";
        let signer = Signer { credentials: &session, region: "r", service: "s", at };
        let signed = signer.presigned_query("h", "/", &[("Action", "kafka-cluster:Connect")], (900, EMPTY_HASH));
        assert!(signed.starts_with("Action=kafka-cluster%3AConnect&X-Amz-Algorithm"), "{signed}");
        assert!(
            signed.contains("&X-Amz-Security-Token=to%2Fken%3D&X-Amz-SignedHeaders=host&X-Amz-Signature="),
            "{signed}"
        );
    }
}
