"""What an upload leaves on the disk where its process is killed: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.files.uploadhandler import load_handler
from django.test import RequestFactory

from apps.web.unnamed_uploads import UnnamedFileUploadHandler


def test_an_upload_is_read_from_a_file_without_a_name(tmp_path: Path, settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path)
    handler = UnnamedFileUploadHandler()
    handler.new_file("file", "a.txt", "text/plain", 10, None)
    handler.receive_data_chunk(b"01234", 0)
    handler.receive_data_chunk(b"56789", 5)
    assert list(tmp_path.iterdir()) == []
    file = handler.file_complete(10)
    assert (file.name, file.size, file.read(), file.content_type) == ("a.txt", 10, b"0123456789", "text/plain")
    handler.upload_interrupted()
    assert file.closed


def test_no_form_takes_files_otherwise(settings: Any) -> None:
    request = RequestFactory().post("/")
    handlers = [load_handler(name, request) for name in settings.FILE_UPLOAD_HANDLERS]
    assert isinstance(handlers[-1], UnnamedFileUploadHandler)
