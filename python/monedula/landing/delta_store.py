"""`DeltaStore`: the files of a table of Delta, in a folder of this machine or by deltalake's own store."""

from collections.abc import Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileType

from monedula.landing.data_files import is_remote


class DeltaStore:
    """Writes data files beside the log: by the store that deltalake itself uses, or in a folder of this machine.

    Folders are not left to deltalake, which takes their path for a URL: of one with a space it would make another, and
    it keeps megabytes of each open file in memory.
    """

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        self.name = path
        self._folder: Path | None = None
        if is_remote(path):
            self._handler = DeltaStorageHandler(path, dict(options))
        else:
            self._folder = Path(unquote(urlsplit(path).path) if "://" in path else path)

    @property
    def filesystem(self) -> Any:
        """The same as a file system of pyarrow."""
        if self._folder is not None:
            return pa_fs.SubTreeFileSystem(str(self._folder.absolute()), pa_fs.LocalFileSystem())
        return pa_fs.PyFileSystem(self._handler)

    def open(self, path: str) -> Any:
        """Begin a file. pyarrow's wrapper passes buffers, which the stream of a store does not take."""
        if self._folder is None:
            return self._handler._handler.open_output_stream(path, None)
        file = self._folder / path
        file.parent.mkdir(exist_ok=True)  # the table's own folder is there, or was deleted
        return file.open("wb")

    def delete(self, path: str) -> None:
        """Delete a file."""
        if self._folder is None:
            self._handler.delete_file(path)
        else:
            (self._folder / path).unlink()

    def read(self, path: str) -> bytes:
        """Read a file.

        Raises:
            FileNotFoundError: if there is none.
        """
        if self._folder is not None:
            return (self._folder / path).read_bytes()
        content: bytes = self._handler.open_input_file(path).read()
        return content

    def holds(self, path: str) -> bool:
        """Return true if there is a file."""
        if self._folder is not None:
            try:
                return S_ISREG((self._folder / path).stat().st_mode)
            except FileNotFoundError:
                return False
        (found,) = self._handler.get_file_info([path])
        return bool(found.type == FileType.File)
