"""Machines that are linked to a server, and the network between them: a proxy that delays, cuts, repeats and reorders
connections, or wraps them in TLS with a certificate of its own. It ends with its test."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

from cli_program import in_process
from http_server import TOKEN
from stdio_process import PATIENCE

PIECE = 1 << 16


class Network:
    """A proxy before the server at `port`. What it does wrong is drawn from `rng`: a share of `bad` connections is cut
    somewhere on the way there or back, or what was asked is said to the server once more; `slow` seconds are the most
    that a connection waits before it is carried, so that later ones overtake it."""

    def __init__(
        self, port: int, rng: Random | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.target = port
        self._rng = rng or Random(0)
        self._tls = tls
        self.bad = self.slow = 0.0
        self.cuts = self.repeats = self.connections = 0
        self.said: list[bytes] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0.05))  # what was closed is let go
        self._loop.close()

    async def _connected(
        self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await asyncio.sleep(self._rng.uniform(0, self.slow))
            fault = ""
            if self._rng.random() < self.bad:
                fault = self._rng.choice(("ask", "answer", "repeat"))
            there_in, there_out = await asyncio.open_connection("127.0.0.1", self.target)
            asked = bytearray()

            async def there() -> None:
                while data := await reading.read(PIECE):
                    self.said.append(data)
                    asked.extend(data)
                    if fault == "ask":  # a part of it arrives
                        there_out.write(data[: self._rng.randrange(len(data))])
                        self.cuts += 1
                        return
                    there_out.write(data)
                    await there_out.drain()

            async def back() -> None:
                while data := await there_in.read(PIECE):
                    if fault == "answer":  # it was done, and nobody hears of it
                        writing.write(data[: self._rng.randrange(len(data))])
                        self.cuts += 1
                        return
                    if fault == "repeat":
                        await self._again(bytes(asked))
                    writing.write(data)
                    await writing.drain()

            both = [asyncio.ensure_future(there()), asyncio.ensure_future(back())]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                there_out.close()
        writing.close()

    async def _again(self, asked: bytes) -> None:
        """Say to the server once more what was asked."""
        reading, writing = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            writing.write(asked)
            await reading.read(PIECE)
        finally:
            writing.close()  # also where the server was killed meanwhile
        self.repeats += 1


@contextmanager
def network(
    port: int, rng: Random | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Network]:
    proxy = Network(port, rng, tls)
    try:
        yield proxy
    finally:
        proxy.end()


def certificate(
    folder: Path, *, days: float = 1.0, name: str = "127.0.0.1"
) -> tuple[ssl.SSLContext, Path]:
    """A certificate of one's own for this machine, which ends in so many days, and the file of its authority."""
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "home")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))])
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "home.pem"
    key_file = folder / "home.key"
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key_file)
    return context, file


def token_file(folder: Path, token: str = TOKEN) -> Path:
    file = folder / "token"
    file.write_text(f"{token}\n")
    file.chmod(0o600)
    return file


def link(machine: Path, url: str, *flags: str) -> tuple[int, str, str]:
    """Link the data folder `machine`; its token is in the folder beside it."""
    return in_process(
        "--data-dir",
        str(machine),
        "link",
        url,
        "--token-file",
        str(token_file(machine.parent)),
        *flags,
    )


def linked(machine: Path, url: str, *flags: str) -> Path:
    status, _, err = link(machine, url, *flags)
    assert status == 0, err
    return machine


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """The URL of something that is not a memory server."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
            answer(self)

        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def says(status: int, body: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"content_type": "application/json"} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer
