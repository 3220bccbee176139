"""Settings: defaults < file < environment < flags, and one sentence for each mistake."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from settings_environment import as_environment

from memory_server.config import Settings, default_config_file, load
from memory_server.kernel.errors import InvalidInput


@pytest.fixture(autouse=True)
def no_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "memory_server.config.default_config_file", lambda: tmp_path / "none" / "memory-server.toml"
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(
        'conversation = "小满"\nlog_level = "INFO"\n[short_term]\nthreshold = 6\ntop_count = 4\n',
        "utf-8",
    )
    return path


def sentence(
    environment: dict[str, str] | None = None,
    flags: dict[str, Any] | None = None,
    config_file: Path | None = None,
) -> str:
    with pytest.raises(InvalidInput) as refused:
        load(environment or {}, flags, config_file)
    text = str(refused.value)
    assert text.endswith(".")
    assert not text.endswith("..")
    assert "\n" not in text
    return text


def test_without_anything_the_defaults_hold() -> None:
    assert load({"PATH": "/bin", "MEMORY": "x"}) == Settings()


def test_later_sources_win_setting_by_setting(file: Path) -> None:
    environment = {"MEMORY_SERVER_SHORT_TERM__THRESHOLD": "7", "MEMORY_SERVER_LOG_LEVEL": "ERROR"}
    assert load({}, None, file).short_term.threshold == 6
    assert load(environment, None, file).short_term.threshold == 7
    settings = load(environment, {"log_level": "DEBUG", "seed": None}, file)
    assert (settings.log_level, settings.conversation, settings.seed) == ("DEBUG", "小满", None)
    assert (
        settings.short_term.threshold,
        settings.short_term.top_count,
        settings.short_term.next_count,
    ) == (7, 4, 1)
    assert load(environment, {"short_term": {"threshold": 8}}, file).short_term.top_count == 4


def test_the_file_is_the_named_one_else_that_of_the_environment_else_the_usual_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_file = tmp_path / "other.toml"
    other_file.write_bytes(b'\xef\xbb\xbfconversation = "other"\n')
    assert load({"MEMORY_SERVER_CONFIG": str(other_file)}).conversation == "other"
    assert load({"MEMORY_SERVER_CONFIG": str(other_file)}, None, file).conversation == "小满"
    monkeypatch.setattr("memory_server.config.default_config_file", lambda: file)
    assert load({}).conversation == "小满"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load({"MEMORY_SERVER_CONFIG": "~/other.toml"}).conversation == "other"


def test_text_of_the_environment_becomes_what_the_setting_is() -> None:
    settings = load(
        {
            "MEMORY_SERVER_UPKEEP__ENABLED": "false",
            "MEMORY_SERVER_TRIGGERS__WORKERS": "3",
            "MEMORY_SERVER_DATA_DIR": "memories",
            "MEMORY_SERVER_NOW": "2026-06-21T08:00:00+08:00",
            "MEMORY_SERVER_TIMEZONE": "Asia/Shanghai",
        }
    )
    assert settings.upkeep.enabled is False
    assert settings.triggers.workers == 3
    assert settings.data_dir == Path("memories")
    assert settings.now == datetime(2026, 6, 21, tzinfo=UTC)
    assert settings.zone is not None
    assert settings.zone.key == "Asia/Shanghai"


def test_an_unknown_name_is_named_with_its_source(file: Path) -> None:
    assert sentence({"MEMORY_SERVER_TRESHOLD": "5"}) == (
        "There is no setting `treshold` (from the environment); docs/reference/settings.md lists all settings."
    )
    assert "`short_term.treshold` (from the environment)" in sentence(
        {"MEMORY_SERVER_SHORT_TERM__TRESHOLD": "5"}
    )
    assert "`colour` (from the command line)" in sentence(None, {"colour": "red"})
    assert sentence({"MEMORY_SERVER_SHORT_TERM__ADVANCED__SPACING": "5"}) == (
        "There is no setting `short_term.advanced.spacing` (from the environment); "
        "docs/reference/settings.md lists all settings."
    )
    file.write_text("[upkeep]\nday = 3\n")
    assert f"`upkeep.day` (from the file {file})" in sentence(None, None, file)


@pytest.mark.parametrize(
    ("variable", "value", "setting", "reason"),
    [
        ("SHORT_TERM__THRESHOLD", "high", "short_term.threshold", "valid number"),
        ("SHORT_TERM__THRESHOLD", "nan", "short_term.threshold", "finite number"),
        ("SHORT_TERM__THRESHOLD", "inf", "short_term.threshold", "finite number"),
        ("SHORT_TERM__TOP_COUNT", "-1", "short_term.top_count", "greater than or equal to 0"),
        ("SHORT_TERM__TOP_COUNT", "2.5", "short_term.top_count", "valid integer"),
        ("SHORT_TERM__HALF_LIFE_DAYS", "0", "short_term.half_life_days", "greater than 0"),
        ("SHORT_TERM", "5", "short_term", "valid dictionary"),
        (
            "SHORT_TERM__ADVANCED__SPACING_MS",
            "-1",
            "short_term.advanced.spacing_ms",
            "greater than or equal to 0",
        ),
        (
            "SHORT_TERM__ADVANCED__SAME_MOMENT",
            "0",
            "short_term.advanced.same_moment",
            "greater than 0",
        ),
        (
            "SHORT_TERM__ADVANCED__SCORE_CEILING",
            "nan",
            "short_term.advanced.score_ceiling",
            "finite number",
        ),
        (
            "SHORT_TERM__ADVANCED__MUST_SHARE",
            "often",
            "short_term.advanced.must_share",
            "valid boolean",
        ),
        ("TRIGGERS__HEAP_MB", "1", "triggers.heap_mb", "greater than or equal to 8"),
        ("UPKEEP__HOUR", "24", "upkeep.hour", "less than or equal to 23"),
        ("UPKEEP__ENABLED", "perhaps", "upkeep.enabled", "valid boolean"),
        ("TIMEZONE", "Beijing", "timezone", "`Beijing` is not an IANA time zone"),
        ("LOG_LEVEL", "LOUD", "log_level", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("CONVERSATION", " ", "conversation", "leave it out"),
        ("CONVERSATION", "x" * 257, "conversation", "257 characters"),
        ("NOW", "noon", "now", "valid datetime"),
        ("NOW", "0001-01-01T00:00:00", "now", "years 2 to 9998"),
        ("NOW", "9999-12-31T23:59:59", "now", "years 2 to 9998"),
        ("COMPAT", "python", "compat", "'none' or 'node'"),
        ("CONVERSATION__NAME", "x", "conversation", "valid string"),
        ("RECALL_SCOPE", "family", "recall_scope", "a group that `groups` names"),
        ("GROUPS", '{"all": ["a"]}', "groups", "`all` is the name of a scope"),
        ("GROUPS", "小明", "groups", "write it as JSON"),
        ("GROUPS", "[1]", "groups", "valid dictionary"),
        ("GROUPS", '{"a": [1]}', "groups.a.0", "valid string"),
        ("HTTP__TIMEZONES", '{"al": "Mars"}', "http.timezones.al", "`Mars` is not an IANA"),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_reason(
    variable: str, value: str, setting: str, reason: str
) -> None:
    text = sentence({f"MEMORY_SERVER_{variable}": value})
    assert text.startswith(f"The setting `{setting}` (from the environment) cannot be ")
    assert reason in text


def test_a_wrong_value_within_a_list_of_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text('[[llm.providers]]\nkind = "x"\nmodel = "m"\n', encoding="utf-8")
    text = sentence({}, None, path)
    assert text.startswith(f"The setting `llm.providers.0.kind` (from the file {path}) cannot be ")


def test_the_source_named_is_the_one_that_won(file: Path) -> None:
    environment = {"MEMORY_SERVER_SHORT_TERM__THRESHOLD": "x"}
    assert "(from the environment)" in sentence(environment, None, file)
    assert load(environment, {"short_term": {"threshold": 1}}, file).short_term.threshold == 1
    assert "(from the command line)" in sentence(
        environment, {"short_term": {"threshold": "y"}}, file
    )


def test_groups_of_conversations_come_from_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "groups.toml"
    path.write_text(
        'recall_scope = "Family"\n[groups]\nFamily = ["小明", "小红*"]\nwork = "a, b"\n',
        encoding="utf-8",
    )
    groups = {"Family": ("小明", "小红*"), "work": ("a", "b")}
    settings = load({}, None, path)
    assert (settings.groups, settings.recall_scope) == (groups, "Family")
    assert load(
        {"MEMORY_SERVER_GROUPS": '{"家": ["小明"]}', "MEMORY_SERVER_RECALL_SCOPE": "家"}
    ).groups == {"家": ("小明",)}
    assert load(as_environment(settings)) == settings


def test_variables_that_contradict_each_other_are_named() -> None:
    text = sentence({"MEMORY_SERVER_SHORT_TERM": "5", "MEMORY_SERVER_SHORT_TERM__THRESHOLD": "5"})
    assert text == (
        "The environment variables MEMORY_SERVER_SHORT_TERM and MEMORY_SERVER_SHORT_TERM__THRESHOLD "
        "contradict each other; unset one of them."
    )


@pytest.mark.parametrize(
    "content", [b"threshold = ", b"a = 1\na = 2", b"\xff\xfe", b"[short_term\n", b"{}"]
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    assert sentence(None, None, path).startswith(f"The settings file {path} is not TOML: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert (
        sentence(None, None, path)
        == f"The settings file {path} cannot be read: No such file or directory."
    )
    assert "Is a directory" in sentence({"MEMORY_SERVER_CONFIG": str(tmp_path)})


def test_settings_do_not_change_once_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().conversation = "x"  # type: ignore[misc]


def test_the_usual_file_is_in_the_users_configuration_folder() -> None:
    assert default_config_file().name == "memory-server.toml"
