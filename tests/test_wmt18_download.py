"""recipes/wmt18/download.sh against a server of our own: broken off, wrong, gone, gone on with."""

import hashlib
import http.server
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTENT = bytes(range(256)) * 400  # 102,400 bytes
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT at every path, by ranges too, and remembers where each answer began."""

    daemon_threads = True
    content = CONTENT
    cut_after: int | None = None  # break the connection off after so many bytes of an answer
    ranges = True
    starts: list[int]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/corpus.tgz"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.server.ranges else 0
        self.server.starts.append(start)
        content = self.server.content
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if self.server.cut_after is None else start + self.server.cut_after
        self.wfile.write(content[start:end])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.starts = []
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def download(folder: Path, url: str, checksum: str) -> "subprocess.CompletedProcess[str]":
    script = (
        f". '{ROOT}/recipes/common.sh'; . '{ROOT}/recipes/wmt18/download.sh'; "
        f"download '{url}' '{folder}/down/corpus.tgz' '{checksum}'"
    )
    return subprocess.run(["bash", "-c", script, "step.sh"], capture_output=True, text=True)


def test_broken_off_and_gone_on_with(server: Server, tmp_path: Path) -> None:
    server.cut_after = 30_000
    done = download(tmp_path, server.url, SHA256)
    assert done.returncode == 1
    last = f"step.sh: error: {server.url}: cannot be downloaded, see above; run again"
    assert done.stderr.splitlines()[-1].startswith(last)
    assert not (tmp_path / "down/corpus.tgz").exists()
    server.cut_after = None
    assert download(tmp_path, server.url, SHA256).returncode == 0
    assert server.starts == [0, 30_000]
    assert (tmp_path / "down/corpus.tgz").read_bytes() == CONTENT
    assert download(tmp_path, server.url, SHA256).returncode == 0
    assert len(server.starts) == 2  # nothing is asked for again


def test_a_wrong_file_is_removed_and_fetched_anew(server: Server, tmp_path: Path) -> None:
    server.content = b"moved" + CONTENT[5:]
    done = download(tmp_path, server.url, SHA256)
    assert (done.returncode, done.stderr) == (
        1,
        f"step.sh: error: {server.url}: is not what sources.tsv expects; removed it: run again to "
        "download it anew\n",
    )
    server.content = CONTENT
    assert download(tmp_path, server.url, SHA256).returncode == 0
    assert server.starts == [0, 0]
