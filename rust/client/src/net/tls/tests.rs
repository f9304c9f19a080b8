//! TLS against a server in the test, which has certificates made on the spot.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs;

use super::identities::Identities;
use super::material::Passwords;
use super::test_support::{
    Authority, BOTH, Certified, Folder, answering, parse, reach, self_signed, serve, server_config, tls,
};
use super::*;

/// The error of a client that trusts the authority and is refused, or refuses.
async fn refusal(authority: &Authority, certified: &Certified, host: &str) -> String {
    let port = serve(server_config(certified, None, BOTH)).await;
    let tls = tls(&[("ssl.ca.pem", &authority.pem())]);
    let error = reach(&tls, host, port).await.expect_err("is refused");
    error.strip_prefix("refused: ").unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_taken_by_name_and_by_address() {
    let authority = Authority::new();
    for version in BOTH {
        let port = serve(server_config(&authority.server(), None, &[version])).await;
        let tls = tls(&[("ssl.ca.pem", &authority.pem())]);
        for host in ["localhost", "localhost.", "127.0.0.1"] {
            assert_eq!(reach(&tls, host, port).await, Ok(()), "{host} {version:?}");
        }
    }
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_and_the_names_are_said() {
    let authority = Authority::new();
    let error = refusal(&authority, &authority.sign(&["a.example", "10.0.0.1"], |_| {}), "localhost").await;
    for part in ["a.example", "10.0.0.1", "localhost"] {
        assert!(error.contains(part), "{error}");
    }
    let error = refusal(&authority, &authority.sign(&[], |_| {}), "localhost").await;
    assert!(error.contains("names no host at all"), "{error}");
}

#[tokio::test]
async fn without_identification_a_certificate_may_be_for_any_host_but_not_of_any_authority() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let other = authority.sign(&["a.example"], |_| {});
    let port = serve(server_config(&other, None, BOTH)).await;
    for none in ["", "none"] {
        let known = tls(&[("ssl.ca.pem", &authority.pem()), ("ssl.endpoint.identification.algorithm", none)]);
        assert_eq!(reach(&known, "localhost", port).await, Ok(()));
        let unknown = tls(&[("ssl.ca.pem", &stranger.pem()), ("ssl.endpoint.identification.algorithm", none)]);
        assert!(
            reach(&unknown, "localhost", port).await.is_err_and(|error| error.contains("no authority that is trusted"))
        );
    }
    let off = tls(&[("ssl.ca.pem", &stranger.pem()), ("enable.ssl.certificate.verification", "false")]);
    assert_eq!(reach(&off, "localhost", port).await, Ok(()));
}

#[tokio::test]
async fn dates_purpose_and_authority_of_a_certificate_are_checked() {
    let authority = Authority::new();
    let expired = authority.sign(&["localhost"], |params| params.not_after = date_time_ymd(2020, 2, 3));
    let error = refusal(&authority, &expired, "localhost").await;
    assert!(error.contains("has expired on") && error.contains("2020"), "{error}");
    let early = authority.sign(&["localhost"], |params| params.not_before = date_time_ymd(2094, 5, 6));
    let error = refusal(&authority, &early, "localhost").await;
    assert!(error.contains("not valid before") && error.contains("2094"), "{error}");
    let client = authority.sign(&["localhost"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let error = refusal(&authority, &client, "localhost").await;
    assert!(error.contains("not one for servers"), "{error}");
    let error = refusal(&authority, &Authority::new().server(), "localhost").await;
    assert!(error.contains("no authority that is trusted") && error.contains("ssl.truststore.location"), "{error}");
    let error = refusal(&Authority::named("CA"), &Authority::named("CA").server(), "localhost").await;
    assert!(error.contains("signed by another key"), "{error}");
}

/// As openssl req -x509 makes it: its own authority.
fn usual_self_signed(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certified {
    self_signed(names, |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(params);
    })
}

#[tokio::test]
async fn a_self_signed_certificate_is_taken_where_it_stands_in_the_truststore_for_its_names_and_dates() {
    let own = usual_self_signed(&["localhost"], |_| {});
    let port = serve(server_config(&own, None, BOTH)).await;
    let trusting = tls(&[("ssl.ca.pem", &own.chain)]);
    assert_eq!(reach(&trusting, "localhost", port).await, Ok(()));
    let error = reach(&trusting, "127.0.0.1", port).await.expect_err("another name");
    assert!(error.contains("localhost") && error.contains("127.0.0.1"), "{error}");
    let error = refusal(&Authority::new(), &own, "localhost").await;
    assert!(error.contains("truststore"), "{error}");

    let expired = usual_self_signed(&["localhost"], |params| params.not_after = date_time_ymd(2020, 2, 3));
    let port = serve(server_config(&expired, None, BOTH)).await;
    let error = reach(&tls(&[("ssl.ca.pem", &expired.chain)]), "localhost", port).await.expect_err("expired");
    assert!(error.contains("expired"), "{error}");
}

#[tokio::test]
async fn a_trusted_certificate_without_its_key_is_not_taken() {
    // The server shows the trusted certificate, and signs the handshake by another key.
    let own = usual_self_signed(&["localhost"], |_| {});
    let other = usual_self_signed(&["localhost"], |_| {});
    let mut config = server_config(&other, None, BOTH);
    let Ok(shown) = material::read(own.chain.as_bytes(), None, Default::default()) else { panic!("no certificate") };
    let key =
        material::read(other.key.as_bytes(), None, Default::default()).ok().and_then(|found| found.key).expect("a key");
    let signer = aws_lc_rs::sign::any_supported_type(&key).expect("a key");
    let certified = rustls::sign::CertifiedKey::new(shown.certificates, signer);
    config.cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
    let port = serve(config).await;
    let error = reach(&tls(&[("ssl.ca.pem", &own.chain)]), "localhost", port).await.expect_err("is refused");
    assert!(error.starts_with("refused: ") && error.contains("signed by another key"), "{error}");
}

#[tokio::test]
async fn a_revoked_certificate_is_refused() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let revoked = authority.sign(&["localhost"], |params| params.serial_number = Some(SerialNumber::from(7)));
    let good = authority.sign(&["localhost"], |params| params.serial_number = Some(SerialNumber::from(8)));
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(2094, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(7),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = folder.write("list.pem", list.signed_by(&authority.0).expect("signed").pem().expect("PEM"));
    let settings = [("ssl.ca.pem", authority.pem()), ("ssl.crl.location", list)];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let port = serve(server_config(&good, None, BOTH)).await;
    assert_eq!(reach(&tls(&settings), "localhost", port).await, Ok(()));
    let port = serve(server_config(&revoked, None, BOTH)).await;
    let error = reach(&tls(&settings), "localhost", port).await.expect_err("is refused");
    assert!(error.contains("revoked"), "{error}");
}

#[tokio::test]
async fn the_client_shows_its_certificate_and_a_missing_or_unknown_one_is_final() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let client =
        |of: &Authority| of.sign(&[], |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
    for version in BOTH {
        let port = serve(server_config(&authority.server(), Some(&authority), &[version])).await;
        let trust = authority.pem();
        let own = client(&authority);
        let known = [("ssl.ca.pem", &*trust), ("ssl.certificate.pem", &own.chain), ("ssl.key.pem", &own.key)];
        assert_eq!(reach(&tls(&known), "localhost", port).await, Ok(()), "{version:?}");
        let none = reach(&tls(&[("ssl.ca.pem", &trust)]), "localhost", port).await.expect_err("needs one");
        assert!(none.starts_with("refused: ") && none.contains("ssl.keystore.location"), "{version:?}: {none}");
        let other = client(&stranger);
        let unknown = [("ssl.ca.pem", &*trust), ("ssl.certificate.pem", &other.chain), ("ssl.key.pem", &other.key)];
        let error = reach(&tls(&unknown), "localhost", port).await.expect_err("is refused");
        assert!(error.starts_with("refused: ") && error.contains("client's certificate"), "{version:?}: {error}");
    }
}

#[tokio::test]
async fn changed_files_are_used_by_the_next_connection_and_half_of_a_change_is_not() {
    let (first, second, folder) = (Authority::new(), Authority::new(), Folder::new());
    let (old, new) = (first.sign(&[], |_| {}), second.sign(&[], |_| {}));
    let trust = first.pem();
    let (chain, key) = (folder.write("chain.pem", &old.chain), folder.write("key.pem", &old.key));
    let settings = [("ssl.ca.pem", &*trust), ("ssl.certificate.location", &chain), ("ssl.key.location", &key)];
    let tls = tls(&settings);
    let server = first.server();
    let at_first = serve(server_config(&server, Some(&first), BOTH)).await;
    let at_second = serve(server_config(&server, Some(&second), BOTH)).await;
    assert_eq!(reach(&tls, "localhost", at_first).await, Ok(()));
    assert!(reach(&tls, "localhost", at_second).await.is_err());

    folder.write("chain.pem", &new.chain);
    assert_eq!(reach(&tls, "localhost", at_first).await, Ok(()), "the old pair is kept");
    let log = Log::default();
    tls.current(&log).await;
    assert!(log.is_empty(), "a change that cannot be used is said once");

    folder.write("key.pem", &new.key);
    assert_eq!(reach(&tls, "localhost", at_second).await, Ok(()), "the new pair is used");
    assert!(reach(&tls, "localhost", at_first).await.is_err());
}

#[tokio::test]
async fn half_of_a_change_is_warned_of() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let (old, new) = (authority.sign(&[], |_| {}), authority.sign(&[], |_| {}));
    let (chain, key) = (folder.write("chain.pem", &old.chain), folder.write("key.pem", &old.key));
    let trust = authority.pem();
    let tls = tls(&[("ssl.ca.pem", &trust), ("ssl.certificate.location", &chain), ("ssl.key.location", &key)]);
    folder.write("chain.pem", &new.chain);
    let log = Log::default();
    tls.current(&log).await;
    let events = log.drain(false).events;
    let [event] = &events[..] else { panic!("{events:?}") };
    assert!(event.level == crate::log::Level::Warning && event.message.contains("does not belong"), "{event:?}");
}

#[tokio::test]
async fn a_directory_of_authorities_is_read_whole() {
    let (first, second, folder) = (Authority::new(), Authority::new(), Folder::new());
    folder.write("README", "certificates of authorities");
    folder.write("first.pem", first.pem());
    folder.write("second.pem", second.pem());
    let tls = tls(&[("ssl.ca.location", folder.0.to_str().expect("text"))]);
    for authority in [first, second] {
        let port = serve(server_config(&authority.server(), None, BOTH)).await;
        assert_eq!(reach(&tls, "localhost", port).await, Ok(()));
    }
}

/// Reaction of a listener that is not TLS at all.
async fn reach_other(answer: &'static [u8]) -> String {
    let (authority, port) = (Authority::new(), answering(answer).await);
    reach(&tls(&[("ssl.ca.pem", &authority.pem())]), "localhost", port).await.expect_err("no TLS")
}

#[tokio::test]
async fn a_port_without_tls_is_named_as_one() {
    assert!(reach_other(b"").await.contains("may be one without TLS"));
    assert!(reach_other(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.contains("an HTTP server"));
    assert!(reach_other(&[0, 0, 0, 4, 0, 0, 0, 0]).await.contains("does not speak TLS"));
    // An alert that is cut off is of TLS all the same.
    assert!(reach_other(&[0x15, 3, 3, 0, 1, 0]).await.contains("is no message of TLS"));
}

#[test]
fn only_suites_and_versions_that_there_are_are_taken() {
    let authority = Authority::new().pem();
    let settings = |more: &[(&str, &str)]| {
        let all: Vec<(&str, &str)> = [("ssl.ca.pem", &*authority)].into_iter().chain(more.iter().copied()).collect();
        parse(&all)
    };
    for suites in ["TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256"] {
        assert_eq!(settings(&[("ssl.cipher.suites", suites)]).expect(suites).warnings, [""; 0]);
    }
    let warned =
        settings(&[("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA")]).expect("one is left");
    assert!(warned.warnings[0].contains("TLS_RSA_WITH_AES_128_CBC_SHA"), "{:?}", warned.warnings);
    let none = settings(&[("ssl.cipher.suites", "DES-CBC3-SHA")]).expect_err("none").message;
    assert!(none.contains("TLS_AES_256_GCM_SHA384"), "{none}");
    let old = settings(&[("ssl.enabled.protocols", "TLSv1.1,TLSv1.2")]).expect_err("old").message;
    assert!(old.contains("TLSv1.1") && old.contains("TLSv1.3"), "{old}");
    let suites = [("ssl.enabled.protocols", "TLSv1.3"), ("ssl.cipher.suites", "ECDHE-RSA-AES128-GCM-SHA256")];
    assert!(settings(&suites).expect_err("no suite").message.contains("ssl.enabled.protocols"));
    settings(&[("ssl.curves.list", "X25519:P-256")]).expect("groups");
    settings(&[("ssl.protocol", "TLSv1.2")]).expect("one version");
}

#[test]
fn what_cannot_be_used_is_refused_with_what_to_do_and_without_the_secret() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let own = authority.sign(&[], |_| {});
    let trust = authority.pem();
    let other = authority.sign(&[], |_| {});
    let chain = folder.write("chain.pem", &own.chain);
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("ssl.ca.location", "/no/such/file")], "ssl.ca.location: /no/such/file"),
        (&[("ssl.ca.pem", "hunter2 no PEM")], "neither PEM"),
        (&[("ssl.ca.pem", &own.key)], "no certificate"),
        (&[("ssl.ca.pem", "/hunter2/ca.pem")], "goes into ssl.truststore.location (ssl.ca.location)"),
        (&[("ssl.truststore.certificates", "~/hunter2.crt")], "goes into ssl.truststore.location"),
        (&[("ssl.certificate.pem", "./hunter2.pem"), ("ssl.key.pem", &own.key)], "goes into ssl.certificate.location"),
        (&[("ssl.certificate.pem", &own.chain), ("ssl_key_pem", "hunter2.key")], "goes into ssl.key.location"),
        (&[("ssl.ca.pem", &trust), ("ssl.ca.location", "/x")], "give one of them"),
        (&[("ssl.truststore.certificates", &trust), ("ssl.truststore.type", "JKS")], "said to be JKS"),
        (&[("ssl.key.pem", &own.key)], "ssl.certificate.location"),
        (&[("ssl.certificate.pem", &own.chain)], "ssl.keystore.key"),
        (&[("ssl.certificate.location", &chain)], "no private key"),
        (&[("ssl.certificate.location", &chain), ("ssl.key.pem", &other.key)], "does not belong"),
        (&[("ssl.certificate.location", &chain), ("ssl.key.pem", "-----BEGIN PRIVATE KEY-----hunter2")], "has no"),
        (&[("ssl.endpoint.identification.algorithm", "ldap")], "https"),
    ];
    for (settings, part) in cases {
        let needs_trust = !settings.iter().any(|(key, _)| key.contains("ca.") || key.contains("truststore"));
        let trusted = needs_trust.then_some(("ssl.ca.pem", &*trust));
        let all: Vec<(&str, &str)> = trusted.into_iter().chain(settings.iter().copied()).collect();
        let message = parse(&all).expect_err(part).message;
        assert!(message.contains(part) && !message.contains("hunter2"), "{part}: {message}");
    }
}

#[test]
fn settings_print_no_secret() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let own = authority.sign(&[], |_| {});
    let trust = authority.pem();
    let chain = folder.write("chain.pem", &own.chain);
    let settings = [
        ("ssl.ca.pem", &*trust),
        ("ssl.certificate.location", &chain),
        ("ssl.key.pem", &own.key),
        ("ssl.key.password", " hunter2 "),
        ("ssl.truststore.password", "hunter2"),
    ];
    let config = parse(&settings).expect("settings");
    let shown = format!("{config:?} {config:#?}");
    let of_key = own.key.lines().nth(1).expect("a line of the key");
    assert!(!shown.contains("hunter2") && !shown.contains(of_key), "{shown}");
}

#[tokio::test]
async fn a_broker_is_shown_the_certificate_of_an_authority_that_it_names() {
    let (first, second, stranger) = (Authority::new(), Authority::new(), Authority::new());
    let trust = stranger.pem();
    let tls = tls(&[("ssl.ca.pem", &trust)]);
    let provider = aws_lc_rs::default_provider();
    let entries = [&first, &second].map(|authority| {
        let own = authority.sign(&[], |_| {});
        let Ok(found) = material::read(format!("{}{}", own.chain, own.key).as_bytes(), None, Passwords::default())
        else {
            panic!("no PEM")
        };
        let entry = found.into_entries().swap_remove(0);
        Arc::new(rustls::sign::CertifiedKey::from_der(entry.chain, entry.key, &provider).expect("a pair"))
    });
    let identities = Arc::new(Identities(entries.to_vec()));
    for version in BOTH {
        for authority in [&first, &second] {
            let port = serve(server_config(&stranger.server(), Some(authority), &[version])).await;
            let mut config = (*lock(&tls.state).loaded.config).clone();
            config.client_auth_cert_resolver = identities.clone();
            lock(&tls.state).loaded.config = Arc::new(config);
            assert_eq!(reach(&tls, "localhost", port).await, Ok(()), "{version:?}");
        }
    }
    // A broker that names none gets the first.
    let shown = identities.resolve(&[], &[SignatureScheme::ECDSA_NISTP256_SHA256]).expect("one");
    assert_eq!(shown.cert, entries[0].cert);
    assert!(identities.resolve(&[], &[SignatureScheme::RSA_PKCS1_SHA256]).is_none(), "no key signs so");
}

#[tokio::test]
async fn authorities_of_one_name_are_both_trusted_whichever_comes_first() {
    let (old, new) = (Authority::named("the same"), Authority::named("the same"));
    for trust in [format!("{}{}", old.pem(), new.pem()), format!("{0}{1}{0}", new.pem(), old.pem())] {
        let tls = tls(&[("ssl.ca.pem", &trust)]);
        for authority in [&old, &new] {
            let port = serve(server_config(&authority.server(), None, BOTH)).await;
            assert_eq!(reach(&tls, "localhost", port).await, Ok(()));
        }
    }
}

#[tokio::test]
async fn an_authority_that_is_replaced_on_disk_is_trusted_by_the_next_connection_and_the_old_one_no_more() {
    let (old, new, folder) = (Authority::new(), Authority::new(), Folder::new());
    let trust = folder.write("ca.pem", old.pem());
    let tls = tls(&[("ssl.ca.location", &trust)]);
    let of_old = serve(server_config(&old.server(), None, BOTH)).await;
    let of_new = serve(server_config(&new.server(), None, BOTH)).await;
    assert_eq!(reach(&tls, "localhost", of_old).await, Ok(()));
    assert!(reach(&tls, "localhost", of_new).await.is_err());
    folder.write("ca.pem", new.pem());
    assert_eq!(reach(&tls, "localhost", of_new).await, Ok(()));
    assert!(reach(&tls, "localhost", of_old).await.is_err());
    folder.write("ca.pem", "half a file");
    assert_eq!(reach(&tls, "localhost", of_new).await, Ok(()), "what was read before is kept");
}

#[test]
fn a_pem_in_one_line_is_read() {
    let authority = Authority::new();
    // The last as a shell or a .env file leaves it.
    for line_break in [" ", "\\n", "\\r\\n"] {
        let text = authority.pem().replace('\n', line_break);
        let Ok(found) = material::read(text.as_bytes(), None, Passwords::default()) else { panic!("no PEM") };
        assert_eq!(found.certificates, [authority.0.der().clone()]);
    }
}

#[tokio::test]
async fn a_file_system_that_does_not_answer_holds_no_connection_up_for_long() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let trust = folder.write("ca.pem", authority.pem());
    let short = ("socket.connection.setup.timeout.ms", "200");
    let tls = tls(&[("ssl.ca.location", &trust), short]);
    let port = serve(server_config(&authority.server(), None, BOTH)).await;
    // As if a thread had begun to look at the files, and did not come back.
    let turn = tls.reading.clone().lock_owned().await;
    assert_eq!(reach(&tls, "localhost", port).await, Ok(()));
    drop(turn);
    assert_eq!(reach(&tls, "localhost", port).await, Ok(()));
}
