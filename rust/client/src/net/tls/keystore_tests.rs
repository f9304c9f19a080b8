//! Keystores and truststores as OpenSSL and Java write them.

use std::path::Path;

use x509_parser::prelude::{FromDer, X509Certificate};

use super::material::{self, Entry, Material, Passwords, Problem};
use super::test_support::parse;

/// Files of openssl and keytool, made by `keystores/make.sh`; the password is `hunter2`, of the JKS key `hunter3`.
fn stored(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/tls/keystores").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn open(name: &str, store: Option<&str>, key: Option<&str>) -> Result<Material, String> {
    let passwords = Passwords { store: store.map(str::as_bytes), key: key.map(str::as_bytes) };
    material::read(&stored(name), None, passwords).map_err(|Problem(what)| what)
}

#[test]
fn keystores_of_java_and_openssl_have_the_key_and_its_chain() {
    let expected = open("client.pem", None, None).expect("PEM");
    let expected_key = expected.key.expect("a key").secret_der().to_vec();
    let leaf = expected.certificates[0].clone();
    for (name, key) in [
        ("client.encrypted.pem", "hunter2"),
        ("client.scrypt.pem", "hunter2"),
        ("client.openssl.p12", "hunter2"),
        ("client.legacy.p12", "hunter2"),
        ("client.java.p12", "hunter2"),
        ("client.jks", "hunter3"),
    ] {
        let found = open(name, Some("hunter2"), Some(key)).unwrap_or_else(|what| panic!("{name}: {what}"));
        let entries = found.into_entries();
        let [entry] = &entries[..] else { panic!("{name}: {}", entries.len()) };
        assert_eq!(entry.key.secret_der(), expected_key, "{name}");
        assert_eq!(entry.chain.first(), Some(&leaf), "{name}");
        assert_eq!(entry.chain.len(), 2, "{name}");
    }
}

#[test]
fn truststores_of_java_have_their_certificates() {
    for (name, password) in [("trust.jks", Some("hunter2")), ("trust.jks", None), ("trust.p12", Some("hunter2"))] {
        let found = open(name, password, None).unwrap_or_else(|what| panic!("{name}: {what}"));
        assert!(found.certificates.len() == 2 && found.entries.is_empty(), "{name}");
    }
}

/// Common name of the certificate's owner.
fn owner_of(entry: &Entry) -> String {
    let (_, parsed) = X509Certificate::from_der(&entry.chain[0]).expect("a certificate");
    let name = parsed.subject().iter_common_name().next().expect("a common name");
    name.as_str().expect("text").to_owned()
}

fn entries(name: &str, key: &str) -> Vec<(String, Entry)> {
    let found = open(name, Some("hunter2"), Some(key)).unwrap_or_else(|what| panic!("{name}: {what}"));
    let mut entries: Vec<(String, Entry)> =
        found.into_entries().into_iter().map(|entry| (owner_of(&entry), entry)).collect();
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    entries
}

#[test]
fn a_keystore_of_several_keys_has_each_with_its_own_chain() {
    let of_p12 = entries("several.p12", "hunter2");
    // Boris' key has another password in the JKS, as Java allows it.
    let mut of_jks = entries("several.jks", "hunter3");
    assert_eq!(of_jks.len(), 2);
    of_jks.insert(1, entries("several.jks", "hunter4").swap_remove(0));
    // Carla's authority has the name of Anna's. A JKS has the whole chain of each key. PKCS#12 does not say which
    // certificates belong together, and keytool keeps one of each name: Carla's authority is not in its file.
    for (owner, (in_p12, in_jks)) in ["anna", "boris", "carla"].iter().zip(of_p12.iter().zip(&of_jks)) {
        assert_eq!((in_p12.0.as_str(), in_jks.0.as_str()), (*owner, *owner));
        let by_java = if *owner == "carla" { 1 } else { 2 };
        assert_eq!(in_p12.1.chain[..by_java], in_jks.1.chain[..by_java], "{owner}");
        assert_eq!(in_p12.1.key, in_jks.1.key, "{owner}");
        assert_eq!(in_p12.1.chain.len(), 2, "{owner}");
    }
    assert_ne!(of_jks[0].1.chain[1], of_jks[2].1.chain[1]);
}

#[test]
fn certificates_that_stand_alone_are_trusted_and_not_part_of_a_chain() {
    let found = open("several.jks", Some("hunter2"), Some("hunter3")).unwrap_or_else(|what| panic!("{what}"));
    assert_eq!(found.certificates.len(), 1);
    assert_eq!(found.all_certificates().len(), 5);
}

#[test]
fn a_wrong_or_missing_password_is_said() {
    for (name, store, key, part) in [
        ("client.encrypted.pem", None, None, "give ssl.key.password"),
        ("client.encrypted.pem", None, Some("wrong"), "ssl.key.password is wrong"),
        ("client.java.p12", Some("wrong"), None, "its password is wrong"),
        ("client.java.p12", None, None, "needs its password"),
        ("client.jks", Some("wrong"), None, "its password is wrong"),
        ("client.jks", Some("hunter2"), None, "ssl.key.password is wrong"),
        ("client.jks", None, None, "needs ssl.keystore.password"),
        ("client.dek.pem", None, Some("hunter2"), "openssl pkcs8 -topk8"),
    ] {
        let what = open(name, store, key).err().unwrap_or_else(|| panic!("{name}"));
        assert!(what.contains(part), "{name}: {what}");
    }
}

/// OpenSSL makes certificates of X.509 version 1 where it is given no extensions, and Kafka takes them.
#[test]
fn a_certificate_of_version_1_is_shown_to_brokers_but_not_to_a_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/tls/keystores/client.pem");
    let path = path.to_str().expect("text");
    let found = open("client.pem", None, None).expect("PEM");
    let (_, own) = X509Certificate::from_der(&found.certificates[0]).expect("a certificate");
    assert_eq!(own.version().0, 0, "which is version 1");
    let settings = [("ssl.keystore.location", path), ("ssl.keystore.type", "PEM"), ("ssl.truststore.location", path)];
    let config = parse(&settings).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.tls.expect("TLS").certificate_expires().is_some());
    let url = ("schema.registry.url", "https://localhost:1");
    let registry =
        [url, ("schema.registry.ssl.certificate.location", path), ("schema.registry.ssl.key.location", path)];
    let error = parse(&[&settings[..], &registry].concat()).expect_err("the client of HTTP takes none").to_string();
    assert!(error.contains("a registry is shown certificates of X.509 version 3 alone"), "{error}");
}

/// Whatever the bytes, reading them ends in material or an error.
#[test]
fn any_bytes_are_read_or_refused() {
    let names = ["client.pem", "client.encrypted.pem", "client.java.p12", "client.jks", "trust.jks", "trust.p12"];
    let seeds: Vec<Vec<u8>> = names.iter().map(|name| stored(name)).collect();
    bolero::check!().with_type::<(u8, Vec<(u16, u8)>, u16)>().for_each(|(seed, changes, cut)| {
        let mut bytes = seeds[usize::from(*seed) % seeds.len()].clone();
        for (place, value) in changes {
            let place = usize::from(*place) % bytes.len();
            bytes[place] = *value;
        }
        if *cut != 0 {
            bytes.truncate(usize::from(*cut) % bytes.len());
        }
        let passwords = Passwords { store: Some(b"hunter2"), key: Some(b"hunter3") };
        let _ = material::read(&bytes, None, passwords);
    });
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = material::read(bytes, None, Passwords::default());
        let jks = [&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2], bytes].concat();
        let _ = material::read(&jks, None, Passwords::default());
    });
}
