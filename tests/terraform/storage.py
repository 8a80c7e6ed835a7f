"""A Cloud Storage that holds Terraform's state: as much of its JSON and XML interface as Terraform and gcloud speak to it.

https://cloud.google.com/storage/docs/json_api: buckets, objects with generations, and `ifGenerationMatch`, which the state's lock is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.terraform.answering import listening

BUCKETS = re.compile(r"/storage/v1/b/?$")
BUCKET = re.compile(r"/storage/v1/b/([^/]+)$")
OBJECTS = re.compile(r"/storage/v1/b/([^/]+)/o/?$")
OBJECT = re.compile(r"/storage/v1/b/([^/]+)/o/(.+)$")
UPLOAD = re.compile(r"/(?:resumable/)?upload/storage/v1/b/([^/]+)/o$")
PLAIN = re.compile(r"/([^/]+)/(.+)$")


@dataclass
class Storage:
    """Buckets of objects: bytes and a generation each."""

    buckets: dict[str, dict[str, tuple[int, bytes]]] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    generation: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    @contextmanager
    def running(self) -> Iterator[Storage]:
        storage = self

        class Handler(_Handler):
            kept = storage

        with listening(Handler) as url:
            self.url = url
            yield self

    def objects(self, bucket: str) -> list[str]:
        """The names of what lies in a bucket."""
        return sorted(self.buckets.get(bucket, {}))

    def put(self, bucket: str, name: str, body: bytes, only_at: str | None) -> tuple[int, Any]:
        with self.lock:
            there = self.buckets[bucket].get(name, (0, b""))[0]
            if only_at is not None and int(only_at) != there:
                return 412, {"error": {"code": 412, "message": "conditionNotMet"}}
            self.generation += 1
            self.buckets[bucket][name] = (self.generation, body)
        return 200, self.about(bucket, name)

    def about(self, bucket: str, name: str) -> dict[str, Any]:
        generation, body = self.buckets[bucket][name]
        return {
            "kind": "storage#object", "bucket": bucket, "name": name, "generation": str(generation), "metageneration": "1",
            "size": str(len(body)), "md5Hash": base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode(),
            "mediaLink": f"{self.url}/download/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media",
            "etag": str(generation), "id": f"{bucket}/{name}/{generation}", "storageClass": "STANDARD",
            "timeCreated": "2026-11-21T00:00:00Z", "updated": "2026-11-21T00:00:00Z", "contentType": "application/octet-stream",
        }  # fmt: skip

    def bucket(self, name: str) -> dict[str, Any]:
        known = {"kind": "storage#bucket", "id": name, "name": name, "projectNumber": "1", "metageneration": "1", "etag": "e"}
        return {**known, "timeCreated": "2026-11-21T00:00:00Z", "updated": "2026-11-21T00:00:00Z", **self.settings.get(name, {})}


NOT_FOUND = (404, {"error": {"code": 404, "message": "Not Found", "errors": [{"reason": "notFound", "message": "Not Found"}]}})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept: Storage

    def answer(self) -> None:
        body = self._body()
        url = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(url.query).items()}
        code, told = self._told(url.path, asked, body)
        data = told if isinstance(told, bytes) else b"" if told is None else json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/octet-stream" if isinstance(told, bytes) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        if isinstance(told, bytes):
            self.send_header("X-Goog-Generation", asked.get("_generation", "1"))
            self.send_header("X-Goog-Metageneration", "1")
        if code == 200 and asked.get("uploadType") == "resumable" and "upload_id" not in asked:
            self.send_header("Location", f"{self.kept.url}{url.path}?uploadType=resumable&upload_id=1&name={quote(told['name'], safe='')}")
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_: Any) -> None:
        return

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - http.server's names

    def _told(self, path: str, asked: dict[str, str], body: bytes) -> tuple[int, Any]:
        kept, verb = self.kept, self.command
        if found := UPLOAD.search(path):
            return self._uploaded(unquote(found[1]), asked, body)
        if BUCKETS.search(path) and verb == "POST":
            wanted = json.loads(body)
            kept.buckets.setdefault(wanted["name"], {})
            kept.settings[wanted["name"]] = {key: value for key, value in wanted.items() if key != "name"}
            return 200, kept.bucket(wanted["name"])
        for pattern, do in ((BUCKET, self._bucket), (OBJECTS, self._list), (OBJECT, self._object), (PLAIN, self._plain)):
            if found := pattern.search(path):
                bucket = unquote(found[1])
                return NOT_FOUND if bucket not in kept.buckets else do(bucket, [unquote(part) for part in found.groups()[1:]], asked, body)
        return NOT_FOUND

    def _bucket(self, bucket: str, _: list[str], asked: dict[str, str], body: bytes) -> tuple[int, Any]:
        if self.command == "PATCH":
            self.kept.settings[bucket] |= json.loads(body)
        return 200, self.kept.bucket(bucket)

    def _list(self, bucket: str, _: list[str], asked: dict[str, str], body: bytes) -> tuple[int, Any]:
        names = [name for name in self.kept.objects(bucket) if name.startswith(asked.get("prefix", ""))]
        return 200, {"kind": "storage#objects", "items": [self.kept.about(bucket, name) for name in names]}

    def _object(self, bucket: str, names: list[str], asked: dict[str, str], body: bytes) -> tuple[int, Any]:
        (name,) = names
        there = self.kept.buckets[bucket]
        if name not in there:
            return NOT_FOUND
        if self.command == "DELETE":
            del there[name]
            return 204, None
        return 200, there[name][1] if asked.get("alt") == "media" else self.kept.about(bucket, name)

    def _plain(self, bucket: str, names: list[str], asked: dict[str, str], body: bytes) -> tuple[int, Any]:
        """The XML interface's way to read an object."""
        asked["_generation"] = str(self.kept.buckets[bucket].get(names[0], (1,))[0])
        return self._object(bucket, names, {**asked, "alt": "media"}, body)

    def _uploaded(self, bucket: str, asked: dict[str, str], body: bytes) -> tuple[int, Any]:
        if bucket not in self.kept.buckets:
            return NOT_FOUND
        content = body
        name = asked.get("name", "")
        if asked.get("uploadType") == "resumable" and "upload_id" not in asked:
            return 200, {"name": name or json.loads(body)["name"]}
        if asked.get("uploadType") == "multipart":
            boundary = re.search(r'boundary="?([^";]+)', self.headers["Content-Type"])
            assert boundary
            about, content = (part.partition(b"\r\n\r\n")[2] for part in body.split(b"--" + boundary[1].encode())[1:3])
            content = content.removesuffix(b"\r\n")
            name = name or json.loads(about)["name"]
        return self.kept.put(bucket, name, content, asked.get("ifGenerationMatch"))
