"""`backup --all-tenants` saves the memories of the owner and of every tenant, and says how many it saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.runtime.homes import home_of

TENANTS = [f"user{number:02}" for number in range(12)]


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """A data folder in which only tenants have memories."""
    monkeypatch.setenv("MEMORY_SERVER_DATA_DIR", str(tmp_path / "data"))
    for tenant in TENANTS:
        main(["--tenant", tenant, "remember", f"{tenant} likes tulips."])
    capsys.readouterr()
    return tmp_path / "data"


def names_of_backups(folder: Path, tenant: str | None) -> list[str]:
    owners = home_of(Settings(data_dir=folder), lambda: 0)
    home = (
        owners if tenant is None else home_of(Settings(data_dir=owners.tenant(tenant)), lambda: 0)
    )
    return [backup.name for backup in home.backups.listed()]


def test_every_tenant_is_saved_under_one_name_and_comes_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "--all-tenants"]) == 0
    assert "12 tenants backed up" in capsys.readouterr().out.replace("12 of 12", "12")
    [name] = names_of_backups(folder, TENANTS[0])
    assert [names_of_backups(folder, tenant) for tenant in TENANTS] == [[name]] * len(TENANTS)
    assert names_of_backups(folder, None) == []
    main(["--tenant", "user03", "forget", "tulips", "--yes"])
    assert main(["--tenant", "user03", "backup", "restore", name]) == 0
    capsys.readouterr()
    main(["--tenant", "user03", "list"])
    assert "user03 likes tulips." in capsys.readouterr().out


def test_the_owner_is_saved_with_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["remember", "The owner likes roses."])
    assert main(["backup", "before-move", "--all-tenants"]) == 0
    assert names_of_backups(folder, None) == ["before-move"]
    assert names_of_backups(folder, "user11") == ["before-move"]


def test_a_tenant_that_cannot_be_saved_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--tenant", "user03", "backup", "before-move"])
    capsys.readouterr()
    assert main(["backup", "before-move", "--all-tenants"]) == 1
    output = capsys.readouterr()
    assert "user03 was not backed up: " in output.err
    assert "11 of 12 tenants backed up." in output.out


def test_a_backup_of_the_owner_says_that_there_are_only_tenants(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup"]) == 2
    message = capsys.readouterr().err
    assert "user00" in message
    assert "and 2 more" in message
    assert "`memory-server backup --all-tenants` backs up all of them." in message
    main(["doctor"])
    assert (
        "`memory-server backup --all-tenants` backs up the owner and all tenants."
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("more", [["-c", "default"], ["--tenant", "user01"]])
def test_one_part_and_everything_contradict_each_other(
    folder: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "--all-tenants", *more]) == 2
    assert (
        "--all-tenants backs up all memories; leave out --tenant and -c." in capsys.readouterr().err
    )


def test_the_help_of_backup_names_its_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["backup", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for command in ("`backup list`", "`backup restore NAME`", "`backup delete NAME`"):
        assert command in shown
