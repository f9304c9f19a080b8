"""Certificates that tests issue: authorities, and valid and invalid certificates.

```python
made = Certificates(folder)
made.ca.issue("anna")                      # a client's; `.chain`, `.key`, `.pem`, `.pkcs12("secret")`, `.jks("secret")`
made.server, made.bad("expired")           # a server's for localhost and 127.0.0.1, and one of `BAD_SERVERS`
```
"""

import datetime
import ipaddress
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.kafka.errors import NodeFailed
from tests.kafka.secured import keystores

DAY = datetime.timedelta(days=1)
HOSTS = ("localhost",)
ADDRESSES = ("127.0.0.1",)

Kind = Literal["ec", "rsa"]
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
USAGES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, and the files that programs take.

    Attributes:
        directory: where the files are made, when they are asked for.
        name: of the files.
        certificate: the certificate itself.
        issuers: the certificates between it and the root, nearest first; not the root.
        root: the authority that a peer has to trust.
        private_key: its key.
    """

    directory: Path
    name: str
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...]
    root: x509.Certificate
    private_key: PrivateKey

    @property
    def subject(self) -> str:
        """As Java writes it: `CN=anna,O=monedula`."""
        return self.certificate.subject.rfc4514_string()

    @property
    def chain_pem(self) -> str:
        """The certificate and those of its issuers up to the root, which is left out."""
        return "".join(_pem(each) for each in (self.certificate, *self.issuers))

    @property
    def key_pem(self) -> str:
        """The key as PKCS#8, not encrypted."""
        return self._key(serialization.NoEncryption())

    @property
    def root_pem(self) -> str:
        """The root's certificate."""
        return _pem(self.root)

    @cached_property
    def chain(self) -> Path:
        """The file of `chain_pem`."""
        return self._file("chain.pem", self.chain_pem.encode())

    @cached_property
    def key(self) -> Path:
        """The file of `key_pem`."""
        return self._file("key.pem", self.key_pem.encode())

    @cached_property
    def pem(self) -> Path:
        """Key and chain in one file: Kafka's `ssl.keystore.location` with `ssl.keystore.type=PEM` (KIP-651)."""
        return self._file("pem", (self.key_pem + self.chain_pem).encode())

    @cached_property
    def root_file(self) -> Path:
        """The file of `root_pem`."""
        return self._file("root.pem", self.root_pem.encode())

    def encrypted_key(self, password: str) -> Path:
        """The key as encrypted PKCS#8 (PBES2)."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        return self._file("encrypted.pem", self._key(encryption).encode())

    def pkcs12(self, password: str) -> Path:
        """Key and chain as PKCS#12, as OpenSSL and `cryptography` write it."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_key_and_certificates(
            self.name.encode(), self.private_key, self.certificate, self.issuers, encryption
        )
        return self._file("p12", data)

    def java_pkcs12(self, password: str) -> Path:
        """Key and chain as PKCS#12, as `keytool` writes it."""
        return keystores.converted(self.pkcs12(password), self._path("java.p12"), "PKCS12", password)

    def jks(self, password: str, key_password: str | None = None) -> Path:
        """Key and chain as JKS, by `keytool`; the key's password is that of the store unless given."""
        return keystores.converted(self.pkcs12(password), self._path("jks"), "JKS", password, key_password)

    def truststore(self, kind: Literal["JKS", "PKCS12"], password: str) -> Path:
        """The root as a truststore of Java, by `keytool`."""
        return keystores.truststore(self.root_file, self._path(f"trust.{kind.lower()}"), kind, password)

    def _key(self, encryption: serialization.KeySerializationEncryption) -> str:
        form = serialization.PrivateFormat.PKCS8
        return self.private_key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()

    def _path(self, ending: str) -> Path:
        return self.directory / f"{self.name}.{ending}"

    def _file(self, ending: str, data: bytes) -> Path:
        path = self._path(ending)
        path.write_bytes(data)
        path.chmod(0o600)
        return path


class Authority:
    """Issues certificates.

    Args:
        directory: the folder of the certificates that it issues.
        name: its common name.
        above: the authority that issued its own certificate; a root's is its own.
    """

    def __init__(self, directory: Path, name: str, above: "Authority | None" = None) -> None:
        self.directory = directory
        self.name = name
        self.private_key: PrivateKey = ec.generate_private_key(ec.SECP256R1())
        self.above = above
        issuer = above or self
        self.certificate = self._signed(issuer)

    @property
    def root(self) -> x509.Certificate:
        """The certificate at the end of the chain."""
        return self.above.root if self.above is not None else self.certificate

    @property
    def pem(self) -> str:
        """Its certificate."""
        return _pem(self.certificate)

    @cached_property
    def file(self) -> Path:
        """The file of `pem`: a client's `ssl.ca.location`."""
        path = self.directory / f"{_file_name(self.name)}.ca.pem"
        path.write_text(self.pem)
        return path

    def truststore(self, kind: Literal["JKS", "PKCS12"], password: str) -> Path:
        """Its certificate as a truststore of Java, by `keytool`."""
        path = self.directory / f"{_file_name(self.name)}.trust.{kind.lower()}"
        return keystores.truststore(self.file, path, kind, password)

    def issue(
        self,
        name: str,
        *,
        file: str | None = None,
        hosts: Sequence[str] = (),
        addresses: Sequence[str] = (),
        usages: Sequence[Literal["server", "client"]] = ("client",),
        valid: tuple[datetime.timedelta, datetime.timedelta] = (-DAY, 30 * DAY),
        key: Kind = "ec",
    ) -> Issued:
        """Issue a certificate.

        Args:
            name: its common name.
            file: the beginning of its files' names; the common name by default.
            hosts: DNS names in its SAN.
            addresses: IP addresses in its SAN.
            usages: its extended key usages; none leaves the extension out.
            valid: from and until, from now on.
            key: of what kind.
        """
        private_key = _private_key(key)
        builder = _builder(name, self.certificate.subject, private_key, valid)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if usages:
            extended = x509.ExtendedKeyUsage([USAGES[usage] for usage in usages])
            builder = builder.add_extension(extended, critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.private_key.public_key()), critical=False
        )
        certificate = builder.sign(self.private_key, hashes.SHA256())
        return Issued(self.directory, file or _file_name(name), certificate, self._issuers(), self.root, private_key)

    def _issuers(self) -> tuple[x509.Certificate, ...]:
        return () if self.above is None else (self.certificate, *self.above._issuers())

    def _signed(self, issuer: "Authority") -> x509.Certificate:
        subject = _subject(self.name)
        above = subject if issuer is self else issuer.certificate.subject
        return (
            _builder(self.name, above, self.private_key, (-DAY, 3650 * DAY))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.private_key.public_key()), critical=False)
            .sign(issuer.private_key, hashes.SHA256())
        )


class Certificates:
    """The certificates of a secured cluster and its clients; each is created when it is first used.

    Args:
        directory: for all files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clients: dict[str, Issued] = {}
        self._bad: dict[str, Issued] = {}

    @cached_property
    def ca(self) -> Authority:
        """The authority that both sides trust."""
        return Authority(self.directory, "monedula test CA")

    @cached_property
    def intermediate(self) -> Authority:
        """An intermediate authority below `ca`: its certificates have a chain of two."""
        return Authority(self.directory, "monedula intermediate CA", self.ca)

    @cached_property
    def other_ca(self) -> Authority:
        """An authority that no side trusts."""
        return Authority(self.directory, "another CA")

    @cached_property
    def server(self) -> Issued:
        """A server's, for localhost and 127.0.0.1, from the intermediate authority."""
        return _server(self.intermediate, "server")

    @cached_property
    def rsa_server(self) -> Issued:
        """Likewise, with an RSA key."""
        return _server(self.intermediate, "rsa-server", key="rsa")

    def client(self, name: str) -> Issued:
        """A client's with this common name, from `ca`."""
        return self._clients.setdefault(name, self.ca.issue(name, file=f"client-{_file_name(name)}"))

    def bad(self, what: str) -> Issued:
        """A server certificate that clients have to refuse: one of `BAD_SERVERS`."""
        return self._bad.setdefault(what, BAD_SERVERS[what](self))

    def bad_client(self, what: str) -> Issued:
        """A client certificate that servers have to refuse: one of `BAD_CLIENTS`."""
        return self._bad.setdefault(f"client-{what}", BAD_CLIENTS[what](self))


def wait_shown(address: tuple[str, int], issued: Issued, timeout_seconds: float = 30.0) -> None:
    """Wait until a server presents this certificate.

    Raises:
        NodeFailed: it did not in time.
    """
    wanted = ssl.PEM_cert_to_DER_cert(_pem(issued.certificate))
    deadline = time.monotonic() + timeout_seconds
    while ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(address, timeout=5.0)) != wanted:
        if time.monotonic() > deadline:
            raise NodeFailed(f"{address} does not show the certificate {issued.name} after {timeout_seconds} s")
        time.sleep(0.05)


def _server(authority: Authority, file: str, **how: object) -> Issued:
    given = {"hosts": HOSTS, "addresses": ADDRESSES, "usages": ("server",), **how}
    return authority.issue("server", file=file, **given)  # type: ignore[arg-type]


def _client(authority: Authority, file: str, **how: object) -> Issued:
    return authority.issue("anna", file=file, **how)  # type: ignore[arg-type]


def self_signed(directory: Path, file: str = "self-signed") -> Issued:
    """A server's certificate for localhost, signed with its own key, as `keytool -genkeypair` makes it: not a CA."""
    private_key = _private_key("ec")
    names = [x509.DNSName(host) for host in HOSTS]
    certificate = (
        _builder("server", _subject("server"), private_key, (-DAY, 30 * DAY))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(private_key, hashes.SHA256())
    )
    return Issued(directory, file, certificate, (), certificate, private_key)


EXPIRED = (-30 * DAY, -DAY)
NOT_YET_VALID = (DAY, 30 * DAY)

BAD_SERVERS: dict[str, Callable[[Certificates], Issued]] = {
    "expired": lambda made: _server(made.ca, "expired", valid=EXPIRED),
    "not yet valid": lambda made: _server(made.ca, "not-yet-valid", valid=NOT_YET_VALID),
    "wrong host": lambda made: _server(made.ca, "wrong-host", hosts=("other.example",), addresses=("127.0.0.9",)),
    "no names": lambda made: _server(made.ca, "no-names", hosts=(), addresses=()),
    "wrong usage": lambda made: _server(made.ca, "wrong-usage", usages=("client",)),
    "self-signed": lambda made: self_signed(made.directory),
    "unknown CA": lambda made: _server(made.other_ca, "unknown-ca"),
}
"""Server certificates that no client may accept, named after the reason."""

BAD_CLIENTS: dict[str, Callable[[Certificates], Issued]] = {
    "expired": lambda made: _client(made.ca, "client-expired", valid=EXPIRED),
    "not yet valid": lambda made: _client(made.ca, "client-not-yet-valid", valid=NOT_YET_VALID),
    "wrong usage": lambda made: _client(made.ca, "client-wrong-usage", usages=("server",)),
    "unknown CA": lambda made: _client(made.other_ca, "client-unknown-ca"),
}
"""Client certificates that no server may accept, likewise."""


def _private_key(kind: Kind) -> PrivateKey:
    if kind == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    name: str, issuer: x509.Name, key: PrivateKey, valid: tuple[datetime.timedelta, datetime.timedelta]
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid[0])
        .not_valid_after(now + valid[1])
    )


def _subject(name: str) -> x509.Name:
    # In this order, `rfc4514_string` writes the common name first, as Java does.
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "monedula")
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)
