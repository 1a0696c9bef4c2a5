"""Each Lua file keeps the rules of the house; what it says of itself is what it does and gets."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import django_redq.broker
from django_redq.broker import scripts
from django_redq.broker.calls import Call, Shard
from tests.every_call import every_call

LUA = Path(django_redq.broker.__file__).parent / "lua"
FILES = sorted(LUA.glob("*.lua"))
INCLUDES = sorted((LUA / "include").glob("*.lua"))
NAME = r"[a-z_]+"
SHARD = Shard("ns", "email", 0, "default")
KEY_NAMES = set(SHARD.keys.__slots__)
BINDING = re.compile(rf"local ({NAME}(?:, {NAME})*) = (.+)")
VALUE = re.compile(r"(?:tonumber\()?(KEYS|ARGV)\[(\d+)\](?:\)| == '1')?")

each_script = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
each_include = pytest.mark.parametrize("path", INCLUDES, ids=lambda path: path.stem)


@dataclass(frozen=True)
class Names:
    """What a header line names: ``a b (c d)...`` is two by name and a tail of pairs."""

    fixed: tuple[str, ...]
    tail: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Names:
        found = re.fullmatch(
            rf"((?:{NAME}\b ?)*?)(?:\(({NAME}(?: {NAME})*)\)\.\.\.|({NAME})\.\.\.)?", line
        )
        assert found, f"no list of names: {line!r}"
        fixed = tuple(found[1].split())
        tail = tuple((found[2] or found[3] or "").split())
        return cls(() if fixed == ("none",) else fixed, tail)

    def fits(self, count: int) -> bool:
        """Whether a call may pass so many."""
        more = count - len(self.fixed)
        return more >= 0 and more % len(self.tail) == 0 if self.tail else more == 0


@dataclass(frozen=True)
class Parts:
    """A script cut at its seams."""

    header: list[str]
    bindings: list[str]
    includes: list[str]
    body: str

    def named(self, word: str) -> str:
        """The header's line of this word."""
        [line] = [line for line in self.header if re.match(rf"-- {word}\s", line)]
        return line.split(None, 2)[2]

    @property
    def keys(self) -> Names:
        return Names.read(self.named("KEYS"))

    @property
    def args(self) -> Names:
        return Names.read(self.named("ARGV"))


def parts_of(path: Path) -> Parts:
    lines = path.read_text().split("\n")
    header = _take(lines, lambda line: line.startswith("--") and not line.startswith("--@"))
    bindings = _take(lines, lambda line: "KEYS[" in line or "ARGV[" in line)
    includes = _take(lines, lambda line: line.startswith("--@include "))
    names = [name for line in includes for name in line.removeprefix("--@include ").split()]
    return Parts(header, bindings, names, "\n".join(lines))


def _take(lines: list[str], wanted: object) -> list[str]:
    taken = []
    while lines and wanted(lines[0]):  # type: ignore[operator]
        taken.append(lines.pop(0))
    return taken


def code_of(text: str) -> str:
    """Without its comments."""
    return re.sub(r"--.*", "", text)


def calls_function(code: str, name: str) -> bool:
    return re.search(rf"(?<!function )\b{name}\(", code) is not None


def include_text(name: str) -> str:
    return (LUA / "include" / f"{name}.lua").read_text()


# --- headers


@each_script
def test_a_script_begins_with_its_purpose_keys_arguments_and_reply(path: Path) -> None:
    header = parts_of(path).header

    assert re.match(r"-- [A-Z].{20,}", header[0]), "the first line says what it does"
    words = [line.split()[1] for line in header if re.match(r"-- (KEYS|ARGV|REPLY)\s", line)]
    assert words == ["KEYS", "ARGV", "REPLY"]


@each_script
def test_a_script_names_keys_as_the_data_model_does(path: Path) -> None:
    names = parts_of(path).keys

    assert {*names.fixed, *names.tail} <= KEY_NAMES


@each_script
def test_a_script_binds_its_names_first_and_in_order(path: Path) -> None:
    parts = parts_of(path)
    bound: dict[str, list[str]] = {"KEYS": [], "ARGV": []}

    for line in parts.bindings:
        found = BINDING.fullmatch(line)
        assert found, f"no plain binding: {line}"
        values = [VALUE.fullmatch(value) for value in found[2].split(", ")]
        for name, value in zip(found[1].split(", "), values, strict=True):
            assert value, f"no plain binding: {line}"
            bound[value[1]].append(name)
            assert int(value[2]) == len(bound[value[1]]), f"out of order: {line}"

    assert tuple(bound["KEYS"]) == parts.keys.fixed
    assert tuple(bound["ARGV"]) == parts.args.fixed


@each_script
def test_no_number_stands_for_a_name_below_the_bindings(path: Path) -> None:
    parts = parts_of(path)
    code = code_of(parts.body)

    assert not re.search(r"(KEYS|ARGV)\[\d+\]", code)
    assert parts.keys.tail or "KEYS" not in code
    assert parts.args.tail or "ARGV" not in code


@each_script
def test_a_script_uses_every_name_that_it_binds(path: Path) -> None:
    parts = parts_of(path)
    code = code_of("\n".join([parts.body, *map(include_text, parts.includes)]))

    unused = [
        name
        for name in (*parts.keys.fixed, *parts.args.fixed)
        if not re.search(rf"(?<![.\w]){name}\b", code)
    ]
    assert unused == []


# --- includes


@each_script
def test_a_script_includes_what_is_there_once_and_uses_it(path: Path) -> None:
    parts = parts_of(path)
    code = code_of(parts.body)
    among_themselves = "\n".join(code_of(include_text(name)) for name in parts.includes)

    assert len(set(parts.includes)) == len(parts.includes)
    assert "--@include" not in parts.body
    unused = [name for name in parts.includes if not calls_function(code + among_themselves, name)]
    assert unused == []


@each_script
def test_a_script_includes_what_its_includes_need_before_them(path: Path) -> None:
    above: set[str] = set()
    everything = {one.stem for one in INCLUDES}

    for name in parts_of(path).includes:
        code = code_of(include_text(name))
        needed = {other for other in everything - {name} if calls_function(code, other)}
        assert needed <= above
        above.add(name)


@each_script
def test_a_script_includes_each_function_that_it_calls(path: Path) -> None:
    parts = parts_of(path)
    code = code_of(parts.body)
    own = set(re.findall(rf"local function ({NAME})\(", code))

    missing = [
        one.stem
        for one in INCLUDES
        if calls_function(code, one.stem) and one.stem not in {*own, *parts.includes}
    ]
    assert missing == []


@each_include
def test_an_include_is_one_function_that_says_what_it_is(path: Path) -> None:
    text = path.read_text()

    assert re.match(rf"-- {path.stem}\(", text)
    assert re.findall(rf"^local function ({NAME})\(", text, re.MULTILINE) == [path.stem]
    assert "KEYS" not in code_of(text)
    assert "ARGV" not in code_of(text)


@each_include
def test_an_include_is_included(path: Path) -> None:
    assert any(path.stem in parts_of(script).includes for script in FILES)


# --- what no script does


@pytest.mark.parametrize("path", [*FILES, *INCLUDES], ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("forbidden", "why"),
    [
        (r"cjson", "it turns [] into {} and rounds big integers"),
        (r"'KEYS'|'SCAN'", "every key is declared"),
        (r"\.\.\s*(now|due|clock)\b", "a number keeps 14 digits as text"),
        (r"redis\.(log|sha1hex|setresp|set_repl|breakpoint)", "nothing needs it"),
    ],
)
def test_no_script_does_what_goes_wrong(path: Path, forbidden: str, why: str) -> None:
    assert not re.search(forbidden, code_of(path.read_text())), why


# --- calls


CALLS = {call.script: call for call in every_call(SHARD)}


def test_every_script_has_a_call() -> None:
    assert sorted(CALLS) == [path.stem for path in FILES] == list(scripts.script_names())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_passes_the_keys_that_the_header_names(call: Call[object]) -> None:
    names = parts_of(LUA / f"{call.script}.lua").keys

    passed = [key.rpartition(":")[2] for key in call.keys]

    assert passed == [*names.fixed, *names.tail]
    assert all(key.startswith("ns:{email:0}:") for key in call.keys)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_passes_as_many_arguments_as_the_header_names(call: Call[object]) -> None:
    names = parts_of(LUA / f"{call.script}.lua").args

    assert names.fits(len(call.args)), f"{names} against {call.args}"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_passes_only_what_redis_takes(call: Call[object]) -> None:
    assert {type(arg) for arg in call.args} <= {str, bytes, int}


# --- what is sent


@each_script
def test_what_is_sent_is_the_file_with_its_includes_in_place(path: Path) -> None:
    sent = scripts.script(path.stem)

    assert "--@include" not in sent.source
    assert sent.sha == hashlib.sha1(sent.source.encode(), usedforsecurity=False).hexdigest()
    for name in parts_of(path).includes:
        assert f"local function {name}(" in sent.source
    assert sent.source.startswith(path.read_text().split("--@include")[0])
    assert sent is scripts.script(path.stem)
