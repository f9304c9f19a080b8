"""A real Apache Kafka that is secured: TLS, SASL with every mechanism, ACLs, delegation tokens.

```python
from tests.kafka.secured import ANNA, SecuredKafka

with SecuredKafka() as kafka:
    settings = kafka.client_settings("SASL_SSL", "SCRAM-SHA-512", ANNA)
```

GSSAPI needs a KDC, Debian's packages krb5-kdc and krb5-admin-server; without it, everything else is there.
"""

from tests.kafka.secured.certificates import BAD_CLIENTS, BAD_SERVERS, Authority, Certificates, Issued
from tests.kafka.secured.cluster import SecuredKafka
from tests.kafka.secured.kdc import Kdc, KdcUnavailable
from tests.kafka.secured.listeners import LISTENERS, MECHANISMS, REAUTH_MS, SCRAM, Listener
from tests.kafka.secured.oauth import Signer, TokenEndpoint, json_answer, unsigned
from tests.kafka.secured.users import ADMIN, ANNA, BORIS, SCRAM_ONLY, TRICKY, User, jaas

__all__ = [
    "ADMIN",
    "ANNA",
    "BAD_CLIENTS",
    "BAD_SERVERS",
    "BORIS",
    "LISTENERS",
    "MECHANISMS",
    "REAUTH_MS",
    "SCRAM",
    "SCRAM_ONLY",
    "TRICKY",
    "Authority",
    "Certificates",
    "Issued",
    "Kdc",
    "KdcUnavailable",
    "Listener",
    "SecuredKafka",
    "Signer",
    "TokenEndpoint",
    "User",
    "jaas",
    "json_answer",
    "unsigned",
]
