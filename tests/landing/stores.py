"""Stores in which tests have tables: S3 by moto, Azure by azurite; all names in them are of one test."""

import http.client
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from monedula.landing import Delta, Iceberg
from pyarrow.fs import AzureFileSystem, FileType

from tests.landing.servers import HOST, Server

BUCKET = "lake"
REGION = "eu-central-1"
SECRET = "c2VzYW1lb3BlbnNlc2FtZQ"
AZURE_ACCOUNT = "devstoreaccount1"
# The key that azurite has, which is public.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Store(Protocol):
    """Where tables are."""

    def delta(self, **options: str) -> Delta:
        """A new table of Delta, with options of the store besides those that it needs."""

    def iceberg(self, folder: Path) -> Iceberg:
        """A new table of Iceberg, whose catalog is a file in a folder."""


class S3Store:
    """See the module.

    Args:
        server: moto.
        port: of a relay before it, by which all requests go.
    """

    def __init__(self, server: Server, port: int | None = None) -> None:
        self._url = f"http://{HOST}:{port or server.port}"
        connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status in (200, 409), "the bucket was not created"
        connection.close()

    def delta(self, **options: str) -> Delta:
        given = {
            "AWS_ENDPOINT_URL": self._url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "access",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }
        return Delta(f"s3://{BUCKET}/{uuid4()}", storage_options={**given, **options})

    def iceberg(self, folder: Path) -> Iceberg:
        return Iceberg("lake.orders", catalog={"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", **self.files()})

    def glue(self) -> Iceberg:
        """A new table of Iceberg in Glue."""
        access = {"glue.access-key-id": "access", "glue.secret-access-key": SECRET}
        catalog = {"type": "glue", "glue.endpoint": self._url, "glue.region": REGION, **access, **self.files()}
        return Iceberg(f"glue_{uuid4().hex}.orders", catalog=catalog)

    def files(self) -> dict[str, str]:
        """The properties of a catalog for files in this store."""
        return {
            "warehouse": f"s3://{BUCKET}/{uuid4()}",
            "s3.endpoint": self._url,
            "s3.access-key-id": "access",
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
        }


class AzureStore:
    """See the module.

    Args:
        server: azurite.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        authority = f"{HOST}:{server.port}"
        self._endpoints: dict[str, Any] = {
            "blob_storage_authority": authority,
            "blob_storage_scheme": "http",
            "dfs_storage_authority": authority,
            "dfs_storage_scheme": "http",
        }
        files = AzureFileSystem(AZURE_ACCOUNT, account_key=AZURE_KEY, **self._endpoints)
        # Azurite sometimes cuts off its answer that a container is there already.
        if files.get_file_info(BUCKET).type is FileType.NotFound:
            files.create_dir(BUCKET)

    def delta(self, **options: str) -> Delta:
        given = {
            "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
            "AZURE_STORAGE_ENDPOINT": f"{self._server.url}/{AZURE_ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }
        return Delta(f"az://{BUCKET}/{uuid4()}", storage_options={**given, **options})

    def iceberg(self, folder: Path) -> Iceberg:
        endpoints = {f"adls.{name.replace('_', '-')}": value for name, value in self._endpoints.items()}
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"abfss://{BUCKET}/{uuid4()}",
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            "adls.account-name": AZURE_ACCOUNT,
            "adls.account-key": AZURE_KEY,
            **endpoints,
        }
        return Iceberg("lake.orders", catalog=catalog)
