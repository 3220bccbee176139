"""Several nodes on one database, and what happens to either: 0 acknowledged writes are lost, none is there twice, no
version is missing, and no write that failed is there."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from postgres import postgres, tenant_of_its_own
from postgres_cluster import Cluster, clusters
from sample_memories import NOW, memory

from memory_server.conversations.changes import Added
from memory_server.kernel.errors import LockTimeout, OutcomeUnknown, StorageUnwritable
from memory_server.storage.options import PostgresSettings, StoreParameters
from memory_server.storage.postgres.connection import Database
from memory_server.storage.postgres.conversations import PostgresStore
from memory_server.storage.postgres.log import ERASE

pytestmark = pytest.mark.anyio
ALONE = pytest.mark.alone
"""For tests in which a patience of some seconds would end for another reason beside other tests."""
LONG = pytest.mark.full
SIZES = [(4, 1.0), pytest.param((16, 12.0), marks=LONG)]
"""Clients of each node, and seconds."""
END_A_CONNECTION = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s order by random() limit 1"
NODE = Path(__file__).with_name("postgres_node.py")


@dataclass
class Outcomes:
    """What nodes said of their writes."""

    ok: dict[str, tuple[str, int]]
    unknown: set[str]
    failed: set[str]
    slowest: float


class Node(subprocess.Popen[str]):
    """A node in a process of its own. What it prints is read as it comes: with a full pipe it would stand still."""

    def __init__(self, *words: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(NODE.parents[1])}
        command = [sys.executable, str(NODE), *words]
        super().__init__(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.stdout is not None
        for line in self.stdout:
            self.lines.append(line)

    def wait_for(self, lines: int) -> None:
        """Until it has printed so many."""
        while len(self.lines) < lines:
            assert self._reader.is_alive(), self.lines
            time.sleep(0.01)

    def ended(self, seconds: float) -> tuple[list[str], str]:
        """Its lines, and its standard error."""
        self.wait(seconds)
        self._reader.join()
        assert self.stdout is not None
        assert self.stderr is not None
        with self.stdout, self.stderr:
            return self.lines, self.stderr.read()


def node(url: str, tenant: str, name: str, size: tuple[int, float], patience: float = 10.0) -> Node:
    clients, seconds = size
    return Node(url, tenant, name, str(clients), str(seconds), str(patience))


def outcomes_of(nodes: list[Node], seconds: float) -> Outcomes:
    outcomes = Outcomes({}, set(), set(), 0.0)
    for process in nodes:
        lines, err = process.ended(seconds + 90)
        assert "Traceback" not in err, err
        for line in lines:
            if not line.endswith("\n"):
                continue  # the process was killed within this line, so nothing was acknowledged by it
            kind, chat, name, *more = line.split()
            if kind == "ok" and len(more) == 2:
                outcomes.ok[name] = chat, int(more[0].partition("-")[0])
                outcomes.slowest = max(outcomes.slowest, float(more[1]))
            elif kind in ("unknown", "failed"):
                print(line)
                getattr(outcomes, kind).add(name)
    return outcomes


def judge(url: str, tenant: str, outcomes: Outcomes) -> None:
    times_stored: Counter[str] = Counter()
    changes_stored: dict[str, tuple[str, int]] = {}
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select p.name, p.version, c.version, c.changes from memory_server.partitions p "
            "join memory_server.commits c using (place) where tenant = %s order by 1, 3",
            [tenant],
        ).fetchall()
    versions: dict[str, list[int]] = {}
    for chat, newest, version, changes in rows:
        versions.setdefault(chat, []).append(version)
        assert len(versions[chat]) == version <= newest, f"a gap before {version} of {chat}"
        for change in changes:
            times_stored[change["memory"]["id"]] += 1
            changes_stored[change["memory"]["id"]] = chat, version
    assert {chat: newest for chat, newest, *_ in rows} == {
        chat: numbers[-1] for chat, numbers in versions.items()
    }
    assert set(outcomes.ok) <= set(times_stored), "an acknowledged write is lost"
    assert max(times_stored.values(), default=1) == 1, "a write is there twice"
    assert not outcomes.failed & set(times_stored), "a write that failed is there"
    assert {name: changes_stored[name] for name in outcomes.ok} == outcomes.ok, (
        "a change id names another change"
    )
    unacknowledged = len(times_stored) - len(outcomes.ok)
    print(
        f"{len(outcomes.ok)} acknowledged, {unacknowledged} more are there, {len(outcomes.unknown)} unknown"
    )
    print(f"{len(outcomes.failed)} failed, slowest {outcomes.slowest:.1f} s")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server that tests stop and start again."""
    with clusters() as cluster:
        yield cluster


@contextmanager
def tenant_in(cluster: Cluster) -> Iterator[str]:
    """The tenant of a test in a cluster."""
    database = Database(cluster.url)
    database.work(lambda attempt: None)
    database.close()
    yield "tenant"
    with suppress(psycopg.Error), psycopg.connect(cluster.url, autocommit=True) as connection:
        for statement in ERASE:
            connection.execute(statement, {"tenant": "tenant"})


@ALONE
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("killed", [pytest.param(False, marks=LONG), True])
def test_two_nodes_lose_nothing_also_if_one_is_killed(
    size: tuple[int, float], killed: bool
) -> None:
    with tenant_of_its_own() as (_, tenant):
        nodes = [node(postgres(), tenant, name, size) for name in "ab"]
        if killed:
            nodes[0].wait_for(10)  # it is in the middle
            nodes[0].kill()
        outcomes = outcomes_of(nodes, size[1])
        assert len(outcomes.ok) > 20
        assert not outcomes.failed | outcomes.unknown
        judge(postgres(), tenant, outcomes)


@ALONE
@LONG
@pytest.mark.parametrize("size", [(4, 1.5), (16, 12.0)])
def test_connections_that_are_ended_every_50_ms_are_noticed_by_no_client(
    size: tuple[int, float],
) -> None:
    with tenant_of_its_own() as (_, tenant):
        url = postgres() + ("&" if "?" in postgres() else "?") + f"application_name={tenant}"
        nodes = [node(url, tenant, name, size) for name in "ab"]
        ended = 0
        with psycopg.connect(postgres(), autocommit=True) as connection:
            while any(process.poll() is None for process in nodes):
                ended += len(connection.execute(END_A_CONNECTION, [tenant]).fetchall())
                time.sleep(0.05)
        outcomes = outcomes_of(nodes, size[1])
        print(f"{ended} connections were ended")
        assert ended > 10
        assert len(outcomes.ok) > 20
        assert not outcomes.failed | outcomes.unknown
        judge(postgres(), tenant, outcomes)


@ALONE
@LONG
@pytest.mark.parametrize("size", [(4, 4.0), (16, 20.0)])
def test_a_database_that_crashes_and_restarts_is_waited_for(
    cluster: Cluster, size: tuple[int, float]
) -> None:
    with tenant_in(cluster) as tenant:
        nodes = [node(cluster.url, tenant, name, size, 20.0) for name in "ab"]
        for process in nodes:
            process.wait_for(1)
        for _ in range(1 if size[0] == 4 else 3):
            cluster.stop("immediate")
            cluster.start()
            time.sleep(0.5)
        outcomes = outcomes_of(nodes, size[1])
        assert len(outcomes.ok) > 20
        assert not outcomes.failed | outcomes.unknown
        judge(cluster.url, tenant, outcomes)


@ALONE
async def test_a_database_that_stays_away_is_an_error_that_changed_nothing_and_comes_back(
    cluster: Cluster,
) -> None:
    with tenant_in(cluster) as tenant:
        database = Database(cluster.url, 1.5)
        store = PostgresStore(database, tenant, lambda: NOW, StoreParameters(wait_seconds=1.5))
        await add(store, "before")
        cluster.stop()
        try:
            began = time.monotonic()
            with pytest.raises(StorageUnwritable, match=r"Nothing was changed\."):
                await add(store, "away")
            with pytest.raises(StorageUnwritable, match="cannot be reached"):
                await store.read("shared")
            assert 1.0 < time.monotonic() - began < 8.0
        finally:
            cluster.start()
        async with asyncio.timeout(30):
            while True:
                with suppress(StorageUnwritable):
                    await add(store, "after")
                    break
        assert [*(await store.read("shared")).short_term] == ["before", "after"]
        await store.aclose()
        database.close()


@ALONE
@pytest.mark.parametrize(
    "size", [pytest.param(size, marks=LONG) for size in ((2, 14.0), (16, 25.0))]
)
def test_a_failover_to_a_promoted_copy_loses_nothing_that_was_acknowledged(
    size: tuple[int, float],
) -> None:
    with clusters() as first:
        second = Cluster(first.folder, copy_of=first)
        second.start()
        with psycopg.connect(first.url, autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = 'copy'")
            connection.execute("select pg_reload_conf()")
            while (
                connection.execute(
                    "select from pg_stat_replication where sync_state = 'sync'"
                ).fetchone()
                is None
            ):
                time.sleep(0.05)
        with tenant_in(first) as tenant:
            hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
            url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
            nodes = [node(url, tenant, name, size, 30.0) for name in "ab"]
            for process in nodes:
                process.wait_for(1)
            first.stop("immediate")
            second.promote()
            outcomes = outcomes_of(nodes, size[1])
            assert len(outcomes.ok) > 10
            assert not outcomes.failed | outcomes.unknown
            judge(second.url, tenant, outcomes)


@ALONE
async def test_a_lock_that_a_stopped_node_holds_is_given_to_others_and_it_goes_on_later() -> None:
    with tenant_of_its_own() as (database, tenant):
        store = PostgresStore(database, tenant, lambda: NOW)
        await add(store, "before")
        stopped = Node("stop", postgres(), tenant)
        try:
            await asyncio.to_thread(stopped.wait_for, 1)
            assert stopped.lines == ["holding\n"]
            with pytest.raises(LockTimeout):
                await add(store, "impatient", wait_seconds=0.1)
            await add(store, "patient")
            assert [*(await store.read("shared")).short_term] == ["before", "patient"]
            stopped.send_signal(signal.SIGCONT)
            [_holding, last_line], _err = await asyncio.to_thread(stopped.ended, 30)
            assert last_line.startswith("ok shared stopped 3-"), last_line
        finally:
            stopped.kill()
            stopped.wait()
        assert [*(await store.read("shared")).short_term] == ["before", "patient", "stopped"]
        await store.aclose()


@ALONE
@pytest.mark.parametrize("clients", [60, pytest.param(200, marks=LONG)])
async def test_many_clients_share_few_connections_and_those_that_wait_too_long_are_told(
    clients: int,
) -> None:
    with tenant_of_its_own() as (_, tenant):
        database = Database(postgres(), 30.0, PostgresSettings(connections=3))
        store = PostgresStore(database, tenant, lambda: NOW, StoreParameters(wait_seconds=30.0))
        await asyncio.gather(*(add(store, "one", chat=f"c{number}") for number in range(clients)))
        assert len(await store.conversations()) == clients
        with psycopg.connect(postgres()) as holder:
            holder.execute(
                "select from memory_server.partitions where tenant = %s for update", [tenant]
            )
            results = await asyncio.gather(
                *(
                    add(store, "two", chat=f"c{number}", wait_seconds=0.5)
                    for number in range(clients)
                ),
                return_exceptions=True,
            )
            assert {type(result) for result in results} == {LockTimeout}
        states = [await store.read(f"c{number}") for number in range(clients)]
        assert {tuple(state.short_term) for state in states} == {("one",)}
        await store.aclose()
        database.close()


# --- lost in the commit ------------------------------------------------------------------------------------


class Proxy:
    """Passes bytes on to a server. At the next COMMIT it cuts the connection, `before` it is passed on or `after`, and
    with `away` it takes no other one."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut: str | None = None
        self.away = self.gone = False
        self.cuts = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.gone:
                    client.close()
                else:
                    threading.Thread(target=self._pass_on, args=[client], daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for side in ready:
                    data = side.recv(1 << 16)
                    if not data:
                        return
                    if side is client and self.cut and b"commit\0" in data:
                        moment = self.cut
                        self.cut = None
                        self.gone = self.away
                        self.cuts += 1
                        if moment == "after":
                            server.sendall(data)
                            # It answers what ends the pipeline, which may come in another piece.
                            while server not in select.select([client, server], [], [])[0]:
                                server.sendall(client.recv(1 << 16))
                        return
                    other_side = server if side is client else client
                    other_side.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("is_new", [True, False], ids=["a new conversation", "a known one"])
@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("away", [False, True])
async def test_a_commit_of_unknown_outcome_is_settled_by_its_token_or_said(
    cut: str, away: bool, is_new: bool
) -> None:
    with tenant_of_its_own() as (_, tenant):
        host = "127.0.0.1"
        port = 5432
        with psycopg.connect(postgres()) as connection:
            host = connection.info.host
            port = connection.info.port
        if host.startswith("/"):
            pytest.skip("the server has no port")
        proxy = Proxy(host, port)
        url = postgres().replace(f"{host}:{port}", f"127.0.0.1:{proxy.port}")
        patience = 30.0
        if away:
            patience = 2.0  # long enough beside other tests: only the proxy ends it
        database = Database(url, patience, PostgresSettings(prepare=False))
        store = PostgresStore(database, tenant, lambda: NOW, StoreParameters(wait_seconds=patience))
        direct = Database(postgres())
        other_store = PostgresStore(direct, tenant, lambda: NOW)
        await add(store, "warm", chat="elsewhere")
        if not is_new:
            await add(store, "first")
            await add(other_store, "second")
        proxy.cut = cut
        proxy.away = away
        if away:
            with pytest.raises(OutcomeUnknown, match="may or may not have happened"):
                await add(store, "lost")
        else:
            assert await add(store, "lost") == (1 if is_new else 3)
        assert proxy.cuts == 1
        expected = [] if is_new else ["first", "second"]
        if cut == "after" or not away:
            expected.append("lost")
        # The lost transaction may take a moment to end.
        assert [*(await other_store.read("shared")).short_term] == expected
        proxy.gone = False
        await add(store, "next")
        names = [*(await store.read("shared")).short_term]
        assert names == [*expected, "next"]
        assert [commit.version for commit in await store.history("shared")] == list(
            range(len(names), 0, -1)
        )
        await store.aclose()
        await other_store.aclose()
        database.close()
        direct.close()
        proxy.close()


async def add(
    store: PostgresStore, name: str, *, chat: str = "shared", wait_seconds: float | None = None
) -> int:
    """The version that a memory came with."""

    decide: Callable[..., tuple[list[Added], None]] = lambda _: ([Added(memory(name))], None)  # noqa: E731
    _, change = await store.update(chat, decide, by="test", wait_seconds=wait_seconds)
    assert change is not None
    return int(change.partition("-")[0])
