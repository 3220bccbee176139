"""What was done in a turn: which call changes which file, how a command is known, and which words its error tells."""

from __future__ import annotations

from typing import Any

import pytest

from memory_server.kernel.work import (
    MOST_ERROR_WORDS,
    MOST_FAILED,
    MOST_TOUCHED,
    Failure,
    ToolCall,
    Work,
    WorkSeen,
    command_head,
    defined_in,
    error_words,
    failure_of,
    is_same_failure,
    path_in,
    taken_work,
    tool_call,
    work_json,
)


@pytest.mark.parametrize(
    ("name", "arguments", "call"),
    [
        ("Edit", {"file_path": "/p/a.py"}, ToolCall(("/p/a.py",), changes=True)),
        ("Write", {"file_path": "/p/a.py", "content": "x"}, ToolCall(("/p/a.py",), changes=True)),
        ("NotebookEdit", {"notebook_path": "/p/a.ipynb"}, ToolCall(("/p/a.ipynb",), changes=True)),
        ("replace", {"file_path": "a.py"}, ToolCall(("a.py",), changes=True)),
        ("apply_patch", "*** Update File: a.py\n@@\n", ToolCall(("a.py",), changes=True)),
        ("Read", {"file_path": "/p/a.py"}, ToolCall(("/p/a.py",))),
        ("Bash", {"command": "make test"}, ToolCall(command="make test")),
        ("shell", {"command": ["bash", "-lc", "make test"]}, ToolCall(command="make test")),
        ("exec_command", {"cmd": "make test"}, ToolCall(command="make test")),
        ("Grep", {"path": "/p"}, ToolCall()),
        ("Edit", {"file_path": 5}, ToolCall(changes=True)),
        (None, None, ToolCall()),
    ],
)
def test_a_call_names_the_files_that_it_changes_or_the_command_that_it_runs(
    name: object, arguments: Any, call: ToolCall
) -> None:
    assert tool_call(name, arguments) == call


@pytest.mark.parametrize(
    ("folder", "path", "relative"),
    [
        ("/home/x/p", "/home/x/p/src/a.py", "src/a.py"),
        ("/home/x/p", "src/a.py", "src/a.py"),
        ("/home/x/p", "./a.py", "a.py"),
        ("/home/x/p", "/home/x/other/a.py", ""),
        ("/home/x/p", "/home/x/pp/a.py", ""),
        ("C:\\p", "C:\\p\\a.py", "a.py"),
        ("/p", "../a.py", ""),
        (None, "/tmp/a.py", ""),
    ],
)
def test_a_path_is_told_from_the_folder_of_its_project(
    folder: str | None, path: str, relative: str
) -> None:
    assert path_in(folder, path) == relative


@pytest.mark.parametrize(
    ("command", "head"),
    [
        ("npm test", "npm test"),
        ("cd web && npm run build 2>&1 | tail -20", "npm run build"),
        ("FOO=1 sudo ./bin/deploy.sh prod", "deploy.sh prod"),
        ("uv run pytest tests/a.py -q", "pytest tests/a.py -q"),
        ("python -m pytest -x", "pytest -x"),
        ("npx jest --ci", "jest --ci"),
        ("timeout 60 make check", "make check"),
        ("git push --force origin main", "git push --force origin main"),
        ("cat <<'EOF' > a\nsecret text\nEOF", "cat"),
        ("echo hi", ""),
        ('"" ""', ""),
        ("\xa0", ""),
        # what may be a password
        ("mysql -u root -phunter2 db", "mysql -u -p db"),
        ("curl -u admin:S3cr3tPass https://x.y/z", "curl -u https://x.y/z"),
        ("sshpass -p hunter2 ssh a@b", "sshpass -p ssh a@b"),
        ("docker login -p hunter2xyz", "docker login"),
        ("ssh a@b 'mysql -phunter2 db'", "ssh a@b mysql -p db"),
        ('ssh a@b "ps aux | grep x; ls"', "ssh a@b ps aux"),
        # several commands in a line
        ('git commit -m "mend a; and b" && git push', "git commit -m && git push"),
        ("npm run build && wrangler deploy || exit 1", "npm run build && wrangler deploy"),
        ("cd web && (npm ci && npm test) 2>&1 | tail -5", "npm ci && npm test"),
        ("make a; make b\nmake a", "make a && make b"),
        ("# don't stop\nmake a", "make a"),
        ("for f in *.py; do pytest $f; done", "pytest $f"),
        ("if [ -f x ]; then make x; fi", "make x"),
        (
            "x " + "y" * 75 + " && cargo test --workspace --all-features --offline",
            "cargo test --workspace --all-features --offline",
        ),
        ("case $1 in start) npm start;; stop | halt) npm stop;; esac", "npm start && npm stop"),
        ('case "$x" in\n  a|b) make a ;;\n  *) echo no ;;\nesac', "make a"),
        (
            "case $1 in\n  'a b')\n    make a\n    ;;\nesac\n(make b && make c)",
            "make a && make b && make c",
        ),
        ("for f in a b; do case $f in a) pytest a; break;; esac; done", "pytest a"),
        ("git commit -m 'in case x in y) pass99' && make", "git commit -m && make"),
        ("case $1 in (pass99) npm start ;; (b | c) npm stop;; esac", "npm start && npm stop"),
        (
            "case $1 in # which? a) or b)\n  pass99) make a ;; # no\n  (b)make b;;c) make c;; esac",
            "make a && make b && make c",
        ),
        # a here-document and an open quote end what can be read
        ("git commit -F - <<'EOF' && git push\nsecret text; x\nEOF", "git commit -F -"),
        ("make a && mysql -p'horse; battery", "make a && mysql -p"),
        ("make a && mysql -p'horse' db", "make a && mysql -p db"),
        ("vault login s.abcdef", "vault login"),
        ("cargo publish --token=abc", "cargo publish --token"),
        # passwords without an option
        ("cd x && ftp -n host user pass99", "ftp"),
        ("make && ftp host me pass99; npm test", "make && ftp && npm test"),
        ("cat x | sshpass -p pass99 ssh h && make", "cat x && make"),
        ("psql x; redis-cli -a pass99 ping", "psql x && redis-cli -a ping"),
        ("make && redis-cli AUTH pass99", "make && redis-cli AUTH"),
        ("mysqladmin -u root password pass99", "mysqladmin -u password"),
        ("smbclient //srv/share pass99 -U me", "smbclient"),
        ("npm t || rabbitmqctl add_user bob pass99", "npm t && rabbitmqctl add_user"),
        ("openssl rsa -passin pass:pass99 -in a", "openssl rsa -p -in a"),
        ("java -storepass pass99 -jar a", "java -s -jar a"),
        ("git config user.password pass99", "git config user.password"),
        (
            "aws configure set aws_secret_access_key pass99",
            "aws configure set aws_secret_access_key",
        ),
        ("npm config set //reg/:_authToken pass99", "npm config set //reg/:_authToken"),
        ("vault write secret/x password=pass99", "vault write secret/x password="),
        ("mount -o user=me,pass=pass99 //h /x", "mount -o user=me,pass= //h /x"),
        ("net use x: pass99", "net use"),
        ("net user bob pass99 /add", "net user"),
        ("redis-cli -h db auth pass99", "redis-cli -h db auth"),
        ("cf auth me pass99", "cf auth"),
        ("nmcli dev wifi connect x password pass99", "nmcli dev wifi connect x password"),
        ("ssh h ftp -n host user pass99", "ssh h ftp"),
        (
            "docker compose exec db /usr/bin/smbclient //s pass99",
            "docker compose exec db /usr/bin/smbclient",
        ),
        ("docker --config x login -u me pass99", "docker --config x login"),
        ("smbget -U me%pass99 smb://h/x", "smbget -U smb://h/x"),
        ("curl -U me:pass99 https://x", "curl -U https://x"),
        ("sqlcmd -U sa -P pass99", "sqlcmd -U sa -P"),
        ("ssh-keygen -t rsa -N pass99 -f x", "ssh-keygen -t rsa -N -f x"),
        ("http x X-Key:pass99", "http x X-Key:"),
        ("openssl enc pass:pass99", "openssl enc pass:"),
        ("docker run PGPASSWORD=pass99 a", "docker run PGPASSWORD= a"),
        # what only looks like a login or the name of a password
        (
            "pytest tests/test_auth.py::TestToken::test_a",
            "pytest tests/test_auth.py::TestToken::test_a",
        ),
        ("pytest a.py::test_key[token=1]", "pytest a.py::test_key[token=1]"),
        ("cargo test api_key::rotate", "cargo test api_key::rotate"),
        ("npm run test:token:e2e", "npm run test:token:e2e"),
        ("pip install -U requests", "pip install -U requests"),
        ("docker compose up auth db", "docker compose up auth db"),
        ("docker compose up login db", "docker compose up login db"),
        ("apt install smbclient cifs", "apt install smbclient cifs"),
        ("git checkout -b net main", "git checkout -b main"),
        ("kubectl auth can-i get pods", "kubectl auth can-i get pods"),
        ("net stop mysql", "net stop mysql"),
        ("ssh-keygen -t rsa -f x", "ssh-keygen -t rsa -f x"),
        ("gh auth status", "gh auth status"),
        ("gh auth refresh", "gh auth refresh"),
        ("make test_pass alpha", "make test_pass alpha"),
        # what is quoted has blanks
        ('sshpass -p "horse battery 99" ssh h', "sshpass -p ssh h"),
        ("sshpass -p 'horse battery' ssh h", "sshpass -p ssh h"),
        ("sshpass -p horse\\ battery ssh h", "sshpass -p ssh h"),
        ('sshpass -p "horse\tbattery" ssh h', "sshpass -p ssh h"),
        ("sshpass -p $'horse battery' ssh h", "sshpass -p ssh h"),
        ('curl -H "X-Api-Key: q1w2e3r4t5" https://x', "curl -H https://x"),
        ('curl -u "me:my pass word" https://x', "curl -u https://x"),
        ('curl -su "me:my pass word" https://x', "curl -su https://x"),
        ('mysql -u root -p"my secret pw" db', "mysql -u -p db"),
        ('mysql --password="my secret pw" db', "mysql --password db"),
        ("mysql '--password=my secret pw' db", "mysql --password db"),
        ("mysql '--password my secret pw' db", "mysql --password db"),
        ('PGPASSWORD="correct horse" psql x', "psql x"),
        ("sudo PGPASSWORD='correct horse' psql x", "psql x"),
        ('gpg --passphrase "correct horse" -d a', "gpg --passphrase -d a"),
        ('zip -P "correct horse" a.zip b', "zip -P a.zip b"),
        ('openssl rsa -passin "pass:correct horse" -in a', "openssl rsa -p -in a"),
        ("mysql -p -p secret db", "mysql -p db"),
        ("mysql \\\n  -p secret db", "mysql -p db"),
        ("ssh h \"PGPASSWORD='correct horse' psql x\"", "ssh h"),
        ("ssh h \"sudo PGPASSWORD='correct horse' psql x\"", "ssh h psql x"),
        ('make deploy PASSWORD="correct horse" x', "make deploy x"),
        ('http x X-Key:"correct horse" a', "http x a"),
        ('docker run -e PASSWORD="correct horse" a', "docker run -e a"),
        ("ssh h \"mysql -p'correct horse' db | sort\"", "ssh h mysql -p db"),
        ('ssh h "ssh g \\"mysql -p \'correct horse\' db\\""', "ssh h ssh g mysql -p"),
        ('ssh h "docker login" correct horse', "ssh h docker login"),
        ("ssh h 'mysql\t-psecret'", "ssh h mysql -p"),
        ('ssh h "; ls"', "ssh h ls"),
        # a quote that is not closed
        ('sshpass -p "horse battery 99', "sshpass -p"),
        ('mysql -p"horse battery 99', "mysql -p"),
        ('PGPASSWORD="correct horse', ""),
        ('ssh h "mysql -p \'horse battery"', "ssh h mysql -p"),
        ("make 'unclosed", "make 'unclosed"),
        # what a shell does by itself may print or keep a password
        ("npm run build && printf 'pass99' | docker login -u me --password-stdin", "npm run build"),
        ("make; local pw=pass99", "make"),
        ("make && test pass99 = $x", "make"),
        ("[[ -f a && -b c ]] && make", "make"),
        ("make ||\n npm ci", "make && npm ci"),
        ("git stash drop stash@{0}", "git stash drop stash@{0}"),
        ("if make x; then npm ci; elif make y; then ls; fi", "make x && npm ci && make y && ls"),
        ("", ""),
    ],
)
def test_a_command_is_known_by_program_and_first_arguments(command: str, head: str) -> None:
    assert command_head(command) == head


def test_a_failure_has_no_password_with_blanks() -> None:
    failure = failure_of(
        'PGPASSWORD="correct horse" psql x', "Exit code 1\nAccess denied", failed=True
    )
    assert failure == Failure("psql x", 1, ("Access", "denied"))


TRACE = """Traceback (most recent call last):
  File "/home/x/p/app/models.py", line 12, in load
    import pydantic_core
ModuleNotFoundError: No module named 'pydantic_core'
"""


def test_the_words_of_an_error_are_of_the_lines_that_speak_of_one() -> None:
    assert error_words("collected 5 items\n" + TRACE)[:4] == (
        "ModuleNotFoundError",
        "No",
        "module",
        "named",
    )
    assert "collected" not in error_words("collected 5 items\n" + TRACE)
    assert (
        len(error_words("error: " + " ".join(f"word{n}x" for n in range(50)))) == MOST_ERROR_WORDS
    )


@pytest.mark.parametrize(
    "around",
    [
        (
            "make[1]: Entering directory '/home/ann/test_it_fails/project'\n{}\n"
            "make: *** [Makefile:2: deploy] Error 3\nmake[1]: Leaving directory '/home/ann/test_it_fails/project'"
        ),
        "make: 进入目录“/home/ann/错误”\n{}\nmake: *** [Makefile:2：deploy] 错误 3\nmake: 离开目录“/home/ann/错误”",
        "{}\nwrote /home/ann/failures/exceptions/log.txt\nread errors/denied/a.txt\nsaved missing/b.txt",
    ],
)
def test_the_folders_of_a_project_do_not_stand_for_its_error(around: str) -> None:
    words = error_words(around.format("vault: permission denied, the seal is closed"))
    assert {"vault", "permission", "denied", "seal"} <= set(words)


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("Exit code 3\nhi\nbad", 3),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nerror: no", 1),
        ("Chunk ID: 5\nProcess exited with code 127\nOutput:\nnot found", 127),
        ("Output: bad\nExit Code: 2", 2),
    ],
)
def test_a_command_failed_where_its_output_has_a_status(output: str, status: int) -> None:
    failure = failure_of("make test", output, failed=True)
    assert failure is not None
    assert (failure.command, failure.status) == ("make test", status)


@pytest.mark.parametrize(
    "output",
    [
        "fine",
        "Exit code 0\nfine",
        "The user doesn't want to proceed with this tool use. The tool use was rejected",
        "PreToolUse:Bash hook error: blocked",
    ],
)
def test_a_command_that_was_refused_or_ended_well_did_not_fail(output: str) -> None:
    assert failure_of("make test", output) is None


def test_a_huge_output_costs_little_and_no_secret_stays_of_it() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    output = (
        "Exit code 1\n"
        + "x" * 5_000_000
        + f"\nfatal: bad token {token} for https://u:hunter22@db/x"
    )
    failure = failure_of(f"curl -H 'Authorization: Bearer {token}' x", output)
    assert failure is not None
    assert token[:20] not in failure.text
    assert "hunter22" not in failure.text


def failure(command: str, *words: str, status: int = 1) -> Failure:
    return Failure(command, status, words)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            failure("npm test", "TypeError", "undefined"),
            failure("npm test", "typeerror", "x"),
            True,
        ),
        (
            failure("npm test", "TypeError", "undefined"),
            failure("npm test", "ENOENT", "file"),
            False,
        ),
        (failure("npm test", "TypeError"), failure("yarn test", "TypeError"), False),
        (failure("pytest a.py", "A", "B", "C"), failure("pytest b.py -q", "A", "B", "C"), True),
        (failure("grep x a"), failure("grep x a"), False),  # it found nothing, and said nothing
        (failure("git push", "failed"), failure("git push", "failed"), True),
        (failure("git push", "failed"), failure("git pull", "failed"), False),
        # in a line with others
        (failure("make a && npm test", "TypeError"), failure("npm test", "TypeError"), True),
        (failure("npm test", "TypeError"), failure("npm ci && npm test", "TypeError"), True),
        (failure("make a && npm test", "TypeError"), failure("make b", "TypeError"), False),
        (failure(" &&  && npm test", "TypeError"), failure("npm test", "TypeError"), True),
        (failure(" && ", "TypeError"), failure(" && ", "TypeError"), False),
        (
            failure("ssh a@b ls", "Command", "failed", "lock"),
            failure("ssh a@b ls", "failed", "x"),
            False,
        ),
    ],
)
def test_a_failure_is_repeated_by_the_same_command_and_words(
    one: Failure, other: Failure, same: bool
) -> None:
    assert is_same_failure(one, other) is same


def test_a_turn_keeps_a_bounded_number_of_files_and_failures_once_each() -> None:
    seen = WorkSeen()
    for number in range(50):
        seen.call(number, "Edit", {"file_path": f"/p/f{number % 40}.py"})
        seen.result(number, "ok")
        seen.call(f"b{number}", "Bash", {"command": f"make t{number % 20}"})
        seen.result(f"b{number}", "Exit code 1\nerror: bad", failed=True)
    seen.call("x", "Edit", {"file_path": "/p/never.py"})
    seen.result("x", "<tool_use_error>String not found</tool_use_error>", failed=True)
    work = seen.within("/p")
    assert (len(work.touched), len(work.failed)) == (MOST_TOUCHED, MOST_FAILED)
    assert "never.py" not in work.touched


def test_work_survives_its_json_and_another_form_stays_where_it_is() -> None:
    work = Work(("a.py",), (Failure("make", 2, ("no", "rule")), Failure("x", None, ())))
    fields = work_json(work) | {"other": 1}
    assert taken_work(fields) == work
    assert fields == {"other": 1}
    for wrong in ({"touched": "a.py"}, {"failed": [{"command": 1}]}, {"touched": ["a"] * 31}):
        kept = dict(wrong)
        assert taken_work(kept) == Work()
        assert kept == wrong


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def charge_card(x):\n    value = 1\n", ("charge_card",)),
        ("export default class InvoiceTotals {}", ("InvoiceTotals",)),
        ("func (s *Server) HandleOrder(w) {", ("HandleOrder",)),
        ("def update(x):\nclass Widget:", ()),
        ("CREATE TABLE order_items (id int)", ("order_items",)),
        ("the class is_full today", ()),
    ],
)
def test_a_text_defines_the_names_that_are_hardly_words(code: str, names: tuple[str, ...]) -> None:
    assert defined_in(code) == names


def test_the_words_of_an_error_have_no_colours_and_none_of_our_marks() -> None:
    output = "Exit code 1\n\x1b[31merror\x1b[0m: bad token ghp_" + "a1B2c3D4e5" * 4
    found = failure_of("gh pr list", output, failed=True)
    assert found is not None
    assert found.words == ("error", "bad", "token")
