"""The users. Each has one name and password for every mechanism, and a certificate with that name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class User:
    """One of them.

    Attributes:
        name: also of the principal, as in `User:anna`.
        password: for PLAIN, SCRAM and Kerberos.
    """

    name: str
    password: str

    @property
    def principal(self) -> str:
        """The principal in ACLs."""
        return f"User:{self.name}"


ADMIN = User("admin", "the-admin's-secret")
"""A super user."""
ANNA = User("anna", "anna-secret-Tq7")
"""May do everything that an ACL can allow, on every resource: she has an ACL for each kind of resource."""
BORIS = User("boris", "boris-secret-Wm3")
"""May do nothing before a test allows it."""
TRICKY = User("katya", ' "päss\\wörd"=,;\u00ad\u2168 ')
"""As `ANNA`. SASLprep, trimming (as librdkafka does), or a JAAS line that is not quoted would change the password.

The name is ASCII: with SCRAM, Kafka takes no other.
"""

USERS = (ADMIN, ANNA, BORIS, TRICKY)
SCRAM_ONLY = User("o=hara,x", "ohara-secret-Zk1")
"""As `ANNA`, with SCRAM only: its name has characters that SCRAM escapes, and JAAS cannot name it for PLAIN."""
UNLIMITED = (ANNA, TRICKY, SCRAM_ONLY)
ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that does not log in: a super user, for the fixture itself."""


def jaas(login_module: str, **options: str) -> str:
    """A line for `sasl.jaas.config`, each option quoted."""
    words = [login_module, "required", *(f"{name}={quoted(value)}" for name, value in options.items())]
    return " ".join(words) + ";"


def quoted(value: str) -> str:
    """A value in JAAS's quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_COMMON = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_COMMON}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_COMMON}.scram.ScramLoginModule"
OAUTH_MODULE = f"{_COMMON}.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
