"""What importing and loading do to the process: each case runs in a process of its own."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = "他把南京市长江大桥写成了南京市长，江大桥"


def run(
    code: str, tmp_path: Path, *flags: str, compiled: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `code` with an empty shared temporary folder. `compiled`: the folder of the compiled files, by default one of
    its own, so that everything is compiled anew."""
    temporary = tmp_path / "shared"
    temporary.mkdir(exist_ok=True)
    folders = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    folders["PYTHONPYCACHEPREFIX"] = str(compiled or tmp_path / "pyc")
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        env={**os.environ, **folders, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled files that the programs of several tests share."""
    return tmp_path_factory.mktemp("compiled")


def is_silent(result: subprocess.CompletedProcess[str]) -> bool:
    return (result.returncode, result.stdout, result.stderr) == (0, "", "")


NO_RJIEBA = "import sys; sys.modules['rjieba'] = None\n"


def test_importing_has_no_effect(tmp_path: Path) -> None:
    result = run(
        "import sys, threading\n"
        "opened = []\n"
        "def hook(event, arguments):\n"
        "    if event == 'open': opened.append(str(arguments[0]))\n"
        "sys.addaudithook(hook)\n"
        "import nlp, nlp.keywords, nlp.once, nlp.lexicon.idf, nlp.lexicon\n"
        "assert not {'jieba', 'rjieba'} & set(sys.modules), 'an engine was imported'\n"
        "assert threading.active_count() == 1\n"
        "data = [name for name in opened if not name.endswith(('.py', '.pyc')) and '.pyc.' not in name]\n"
        "assert data == [], data\n",
        tmp_path,
        "-B",  # what Python compiles is not an effect of ours
    )
    assert is_silent(result), result


@pytest.mark.parametrize("before", ["", NO_RJIEBA], ids=["the engine of this machine", "jieba"])
def test_nothing_is_printed_and_no_file_is_left(tmp_path: Path, before: str) -> None:
    # -X dev shows every warning, those of jieba's first byte-compilation and of unclosed files included.
    result = run(
        f"{before}import nlp; nlp.load(); assert nlp.extract_keywords({TEXT!r})",
        tmp_path,
        "-X",
        "dev",
    )
    assert is_silent(result), result
    assert list((tmp_path / "shared").iterdir()) == []


def test_a_planted_cache_file_changes_nothing(tmp_path: Path, compiled: Path) -> None:
    """jieba itself would unmarshal this and cut every text into single characters."""
    (tmp_path / "shared").mkdir()
    planted = tmp_path / "shared" / "jieba.cache"
    planted.write_bytes(marshal.dumps(({"南": 1}, 1)))
    before = planted.read_bytes()
    result = run(
        f"{NO_RJIEBA}import nlp\n"
        f"assert nlp.engine_name() == 'jieba'\n"
        f"assert 'jieba.analyse' not in sys.modules\n"
        f"assert {{word for word, _ in nlp.extract_keywords({TEXT!r})}} >= {{'南京市', '长江大桥'}}\n",
        tmp_path,
        compiled=compiled,
    )
    assert is_silent(result), result
    assert planted.read_bytes() == before
    assert list((tmp_path / "shared").iterdir()) == [planted]


@pytest.mark.usefixtures("rjieba_engine")  # skips where there is none
def test_with_rjieba_the_code_of_jieba_never_runs(tmp_path: Path, compiled: Path) -> None:
    result = run(
        "import sys, nlp\nnlp.load()\nassert nlp.engine_name() == 'rjieba'\nassert 'jieba' not in sys.modules\n",
        tmp_path,
        compiled=compiled,
    )
    assert is_silent(result), result


def test_the_first_extraction_loads_what_is_missing(tmp_path: Path, compiled: Path) -> None:
    result = run(
        "import nlp; assert nlp.extract_keywords('我喜欢披萨')[0].word == '披萨'",
        tmp_path,
        compiled=compiled,
    )
    assert is_silent(result), result


def test_a_text_without_words_needs_no_table_of_weights(tmp_path: Path, compiled: Path) -> None:
    result = run(
        "import nlp\n"
        "from nlp.lexicon.idf import idf_table\n"
        "assert nlp.extract_keywords('。。。') == []\n"
        "assert nlp.extract_message_keywords([]) == []\n"
        "assert not idf_table._values\n",
        tmp_path,
        compiled=compiled,
    )
    assert is_silent(result), result


def test_without_jieba_the_error_says_what_is_missing(tmp_path: Path, compiled: Path) -> None:
    result = run(
        "import sys; sys.modules['jieba'] = None\n"
        "import nlp\n"
        "try: nlp.load()\n"
        "except ImportError as error: assert 'jieba' in str(error), error\n"
        "else: raise SystemExit('no error')\n",
        tmp_path,
        compiled=compiled,
    )
    assert is_silent(result), result
