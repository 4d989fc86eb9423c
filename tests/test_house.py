"""The rules of the house that a reader relies on, and no linter knows."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from draftwalk.quant import Format
from draftwalk.target import architectures
from draftwalk.target.blueprint import Architecture

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "draftwalk"
FILES = sorted(SOURCE.rglob("*.py"))

# A room may import the rooms before it. `package` is what `import draftwalk` offers.
ROOMS = (
    *("errors", "settings", "registry", "fetch"),
    *("quant", "weights"),
    *("rows", "ops", "state", "layers"),
    *("verify", "window", "text", "prompt"),
    *("target", "draft", "step", "sequence", "loop"),
    *("models", "defaults", "result", "engine", "convert", "train", "package", "cli"),
)
# Rooms that stand alone: what they may import besides the standard library and dependencies.
ALONE = {
    "errors": set(),
    "settings": {"errors"},
    "registry": {"errors"},
    "fetch": {"errors"},
    "verify": {"errors", "settings"},
    "window": {"errors", "settings"},
    "text": {"errors", "settings"},
    "prompt": {"errors", "settings"},
}
# The compiled extension, and the rooms that use it; none but its back end needs it.
EXTENSION, EXTENDED = "_native", {"ops", "verify", "draft"}
LINES, FUNCTION_LINES = 400, 60
# Jinja calls a template's functions with what the template says, typer a verb with all its options.
TAKES_KEYWORDS = {"prompt/sandbox.py", "prompt/template_filters.py", "cli/verb.py"}
MUTATORS = {
    *("append", "extend", "insert", "remove", "pop", "clear", "update", "add", "discard"),
    *("setdefault", "popitem", "sort", "reverse"),
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def short(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    name = parts[0].removesuffix(".py")
    return "package" if name == "__init__" else name


def imported(path: Path) -> Iterator[str]:
    """Dotted names of all modules a file imports, wherever in it."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{short(path)} imports relatively"
            assert node.module is not None
            if node.module == "draftwalk":
                yield from (f"draftwalk.{alias.name}" for alias in node.names)
            else:
                yield node.module


def rooms_imported(path: Path) -> set[str]:
    names = [name.split(".") for name in imported(path)]
    return {parts[1] if len(parts) > 1 else "package" for parts in names if parts[0] == "draftwalk"}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def calls(path: Path, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def test_every_room_has_its_place() -> None:
    assert {room(path) for path in FILES} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=short)
def test_imports_go_one_way(path: Path) -> None:
    here = room(path)
    allowed = ALONE[here] if here in ALONE else set(ROOMS[: ROOMS.index(here)])
    allowed |= {EXTENSION} if here in EXTENDED else set()
    assert rooms_imported(path) - {here} <= allowed


def test_only_declared_dependencies_are_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] + project["optional-dependencies"]["train"]
    declared = {re.split(r"[<>=~! \[]", line)[0] for line in lines}
    known = {name.replace("-", "_") for name in declared} | set(sys.stdlib_module_names)
    for path in FILES:
        tops = {name.split(".")[0] for name in imported(path)}
        assert tops <= known | {"draftwalk"}, short(path)


@pytest.mark.parametrize("path", FILES, ids=short)
def test_files_and_functions_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES
    for function in functions(path):
        assert function.end_lineno is not None
        assert function.end_lineno - function.lineno < FUNCTION_LINES, function.name


@pytest.mark.parametrize("path", FILES, ids=short)
def test_no_hidden_inputs(path: Path) -> None:
    """No environment, no guessed attributes, no open-ended arguments, no code from files."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            assert name not in {"environ", "environb", "getenv", "putenv"}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) != ("torch", "load")
    assert not {"pickle", "marshal", "shelve"} & set(imported(path))
    for name in ("hasattr", "eval", "exec", "globals"):
        assert not [*calls(path, name)], name
    assert all(len(call.args) == 2 for call in calls(path, "getattr")), "getattr with a default"
    if short(path) not in TAKES_KEYWORDS:
        taking = [function.name for function in functions(path) if function.args.kwarg]
        assert taking == []


@pytest.mark.parametrize("path", FILES, ids=short)
def test_nothing_of_a_module_changes(path: Path) -> None:
    """What a module defines is constant: written in capitals, and never written to."""
    constants = set()
    for node in tree(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for name in (target for target in targets if isinstance(target, ast.Name)):
            constants.add(name.id)
            is_type = isinstance(node.value, ast.Subscript | ast.BinOp | ast.Call | ast.Name)
            is_constant = name.id.isupper() or name.id.startswith("__")
            is_constant |= (room(path), name.id) == ("cli", "app")  # typer's name for it
            assert is_constant or (is_type and name.id.lstrip("_")[0].isupper()), name.id
    for node in ast.walk(tree(path)):
        assert not isinstance(node, ast.Global), "a function writes to its module"
        changed: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            changed = node.targets
        elif isinstance(node, ast.AugAssign):
            changed = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = [node.func] if node.func.attr in MUTATORS else []
        for one in changed:
            if isinstance(one, ast.Subscript | ast.Attribute) and isinstance(one.value, ast.Name):
                assert one.value.id not in constants, one.value.id


@pytest.mark.parametrize("path", FILES, ids=short)
def test_every_file_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree(path)), "a module docstring"
    if room(path) != "cli":
        assert not [*calls(path, "print")], "only the command line prints"


@pytest.mark.parametrize(
    ("folder", "constant", "kind"),
    [
        (Path(str(architectures.__path__[0])), "ARCHITECTURE", Architecture),
        (SOURCE / "quant", "FORMATS", Format),
    ],
)
def test_files_of_a_catalogue_declare_what_they_are(
    folder: Path, constant: str, kind: type[object]
) -> None:
    files = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    assert files
    for path in files:
        name = ".".join(("draftwalk", *path.relative_to(SOURCE).with_suffix("").parts))
        __import__(name)
        value = vars(sys.modules[name])[constant]
        assert all(
            isinstance(one, kind) for one in (value if isinstance(value, tuple) else [value])
        )


# Words that tell of the place where this was written, not of what it is. In parts, for this file
# is read as well.
PLACES = tuple("/" + name + "/" for name in ("work", "tmp", "home", "root", "Users", "mnt"))
WORDS = re.compile(
    r"\b(" + "|".join(("ses" + "sions?", "ag" + "ents?", "clau" + "de", "anthro" + "pic")) + r")\b",
    re.IGNORECASE,
)
ALLOWED_PHRASES = re.compile('scope="ses' + 'sion"|User-Ag' + "ent")
HOSTS = {
    *(
        "www.apache.org",
        "git-lfs",
        "git-lfs.github.com",
        "github.com",
        "arxiv.org",
        "huggingface.co",
    ),
    *("keepachangelog.com", "semver.org", "matklad.github.io", "docs.astral.sh"),
    *("index.invalid", "x.y", "127.0.0.1", "localhost"),
}
UNREAD = {"fixtures", "prompts", "__pycache__", "dist", "build"}
READ = {
    ".cpp",
    ".h",
    ".pyi",
    ".py",
    ".md",
    ".toml",
    ".json",
    ".yml",
    ".yaml",
    ".cfg",
    ".txt",
    ".sh",
    ".ini",
    "",
}


def texts(folder: Path = ROOT) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name != ".ci"
            if not hidden and path.name not in UNREAD and not path.name.endswith(".egg-info"):
                yield from texts(path)
        elif path.suffix in READ and path.name != ".git":
            yield path


def test_the_text_speaks_of_the_thing_itself() -> None:
    for path in texts():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            where = f"{path.relative_to(ROOT)}:{number}"
            assert not any(place in line for place in PLACES), where
            assert not WORDS.search(ALLOWED_PHRASES.sub("", line)), where
            hosts = set(re.findall(r"https?://(?:[^\s/@]*@)?([a-z0-9][a-z0-9.-]*)", line))
            assert hosts <= HOSTS, where
            assert not re.search(r"\b[a-z0-9-]+\.(internal|corp|lan|svc)\b", line), where
