"""Tokens for Amazon MSK's mechanism AWS_MSK_IAM where a profile has the credentials, which botocore reads.

It needs botocore: `pip install monedula[aws]`. The core signs with the credentials of the environment, of a container
and of an instance by itself (`rust/client/src/sasl/aws.rs`). The settings are those of Amazon's library for Java.
"""

import base64
import importlib.util
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monedula.errors import ConfigError

MECHANISM = "AWS_MSK_IAM"
LIFETIME_SECONDS = 900
_SERVICE = "kafka-cluster"
_OPTIONS = frozenset(
    ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion", "awsDebugCreds")
)
_ADDRESS = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")


class MskIam:
    """Signer of tokens, with the credentials that botocore finds, or with those of a role.

    There is one session for the life of the client, and the name of a role's session stays the same: Kafka refuses
    another principal when a client logs in again, and the session's name is part of the principal.
    """

    def __init__(self, settings: Mapping[str, str], options: Mapping[str, str]) -> None:
        if unknown := sorted(set(options) - _OPTIONS):
            known = ", ".join(sorted(_OPTIONS))
            raise ConfigError(f"sasl.jaas.config: {unknown[0]} is no option of IAMLoginModule; it has {known}")
        try:
            import botocore.session
        except ModuleNotFoundError as error:
            message = f"sasl.mechanism={MECHANISM} with a profile needs botocore: pip install monedula[aws]"
            raise ConfigError(message, key="sasl.mechanism") from error
        self._session: Any = botocore.session.Session(profile=options.get("awsProfileName"))
        self._region = region_of(settings.get("bootstrap.servers", ""), self._session)
        self._credentials = self._of_role(options) if "awsRoleArn" in options else self._session.get_credentials()

    def __repr__(self) -> str:
        return f"<MskIam in {self._region}>"

    def _of_role(self, options: Mapping[str, str]) -> Any:
        from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

        extra = {"RoleSessionName": options.get("awsRoleSessionName") or session_name()}
        if external_id := options.get("awsRoleExternalId"):
            extra["ExternalId"] = external_id
        sts_region = options.get("awsStsRegion") or self._region

        def sts(service: str, **given: Any) -> Any:
            return self._session.create_client(service, region_name=sts_region, **given)

        fetcher = AssumeRoleCredentialFetcher(
            client_creator=sts,
            source_credentials=self._session.get_credentials(),
            role_arn=options["awsRoleArn"],
            extra_args=extra,
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def __call__(self) -> tuple[str, float]:
        """Return a token, and its expiry in seconds since 1970."""
        import time

        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest

        if self._credentials is None:
            raise LookupError("no AWS credentials were found: see botocore's documentation for where they may stand")
        frozen = self._credentials.get_frozen_credentials()
        domain = "amazonaws.com.cn" if self._region.startswith("cn-") else "amazonaws.com"
        url = f"https://kafka.{self._region}.{domain}/?Action=kafka-cluster%3AConnect"
        request = AWSRequest(method="GET", url=url)
        signed_at = time.time()
        SigV4QueryAuth(frozen, _SERVICE, self._region, expires=LIFETIME_SECONDS).add_auth(request)
        signed = f"{request.url}&User-Agent=monedula"
        token = base64.urlsafe_b64encode(signed.encode()).decode().rstrip("=")
        return token, signed_at + LIFETIME_SECONDS


def has_profile(options: Mapping[str, str]) -> bool:
    """Return true if the credentials stand in a profile: one that is named, or the default one of a file that is there.

    Credentials in the environment count before a profile, as with botocore. Without it, files are not looked at.
    """
    if options.get("awsProfileName"):
        return True
    if all(os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")):
        return False
    if os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE"):
        return True
    files = (("AWS_CONFIG_FILE", "~/.aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    has_file = any(Path(os.environ.get(name) or usual).expanduser().is_file() for name, usual in files)
    return has_file and importlib.util.find_spec("botocore") is not None


def region_of(bootstrap_servers: str, session: Any) -> str:
    """Return the region of the cluster, from the brokers' names, else from AWS's own settings."""
    for server in bootstrap_servers.split(","):
        if found := _ADDRESS.search(server.strip().rpartition(":")[0]):
            return found.group(1)
    region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if region:
        return str(region)
    message = f"sasl.mechanism={MECHANISM}: bootstrap.servers does not show the region; set AWS_REGION"
    raise ConfigError(message, key="sasl.mechanism")


def session_name() -> str:
    """Return a name for the session of a role: the same for all tokens of this process."""
    return re.sub(r"[^\w+=,.@-]", "-", f"monedula-{socket.gethostname()}-{os.getpid()}")[:64]
