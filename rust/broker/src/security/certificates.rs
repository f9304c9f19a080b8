//! Certificates that the broker issues at its start: its own CA, the server's certificate, and those of clients.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use monedula_protocol::secret::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use crate::BrokerError;

/// The CA of a broker, and what it issues.
pub(crate) struct Certificates {
    ca: Issuer<'static, KeyPair>,
    ca_pem: String,
    /// The host that the nodes listen on, besides the names of loopback.
    host: String,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("host", &self.host).finish_non_exhaustive()
    }
}

/// A certificate with its key, as PEM texts.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    /// The certificate, and that of the CA behind it.
    pub(crate) chain_pem: String,
    /// The key, as unencrypted PKCS#8.
    pub(crate) key_pem: Secret,
}

/// The flaw of the certificate that the nodes present.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// No flaw.
    #[default]
    None,
    Expired,
    NotYetValid,
    /// The certificate names another host.
    WrongHost,
    /// The certificate's CA is another one.
    UnknownCa,
    /// The certificate is self-signed.
    SelfSigned,
    /// The certificate is for clients, not for servers.
    WrongUsage,
}

impl Flaw {
    const NAMES: [(&str, Self); 7] = [
        ("none", Self::None),
        ("expired", Self::Expired),
        ("not_yet_valid", Self::NotYetValid),
        ("wrong_host", Self::WrongHost),
        ("unknown_ca", Self::UnknownCa),
        ("self_signed", Self::SelfSigned),
        ("wrong_usage", Self::WrongUsage),
    ];
}

impl FromStr for Flaw {
    type Err = BrokerError;

    fn from_str(text: &str) -> Result<Self, BrokerError> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, flaw)| *flaw).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name).join(", ");
            BrokerError::Command(format!("there is no certificate {text:?}; there are {names}"))
        })
    }
}

fn failed(error: rcgen::Error) -> BrokerError {
    BrokerError::Command(format!("a certificate cannot be made: {error}"))
}

fn authority(name: &str) -> Result<(CertificateParams, KeyPair), rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok((params, KeyPair::generate()?))
}

impl Certificates {
    /// Makes a CA.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if there is no randomness for keys.
    pub(crate) fn new(host: &str) -> Result<Self, BrokerError> {
        let (params, key) = authority("monedula broker CA").map_err(failed)?;
        let ca_pem = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { ca: Issuer::new(params, key), ca_pem, host: host.to_owned() })
    }

    /// The CA's certificate.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A certificate for the nodes.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if the host is no valid name.
    pub(crate) fn server(&self, flaw: Flaw) -> Result<Issued, BrokerError> {
        let mut names = match flaw {
            Flaw::WrongHost => vec!["elsewhere.invalid".to_owned()],
            _ => ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
        };
        let is_any = self.host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
        if flaw != Flaw::WrongHost && !is_any && !names.contains(&self.host) {
            names.push(self.host.clone());
        }
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "monedula broker");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match flaw {
            Flaw::WrongUsage => ExtendedKeyUsagePurpose::ClientAuth,
            _ => ExtendedKeyUsagePurpose::ServerAuth,
        }];
        match flaw {
            Flaw::Expired => params.not_after = date_time_ymd(2020, 1, 1),
            Flaw::NotYetValid => params.not_before = date_time_ymd(2500, 1, 1),
            _ => {}
        }
        match flaw {
            Flaw::SelfSigned => {
                let key = KeyPair::generate().map_err(failed)?;
                let chain_pem = params.self_signed(&key).map_err(failed)?.pem();
                Ok(Issued { chain_pem, key_pem: key.serialize_pem().into() })
            }
            Flaw::UnknownCa => Self::new(&self.host)?.issue(&params),
            _ => self.issue(&params),
        }
    }

    /// A certificate for a client, whose principal is `User:CN=name`.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if there is no randomness for keys.
    pub(crate) fn client(&self, name: &str) -> Result<Issued, BrokerError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Result<Issued, BrokerError> {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.ca).map_err(failed)?;
        let chain_pem = format!("{}{}", certificate.pem(), self.ca_pem);
        Ok(Issued { chain_pem, key_pem: key.serialize_pem().into() })
    }
}
