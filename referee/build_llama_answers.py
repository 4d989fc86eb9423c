"""Compile `llama_answers.cpp` against the llama.cpp that was built for this machine.

    .referee/bin/python referee/build_llama_answers.py

llama-cpp-python's build leaves llama.cpp's libraries, speculation among them, in the environment,
but not all of their headers: those come out of its source package, in the pinned version (75 MB,
once). Needs a C++ compiler; the result is .referee/bin/llama_answers.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADERS = ROOT / ".referee" / "llama.cpp"
BINARY = ROOT / ".referee" / "bin" / "llama_answers"
_FOLDERS = ("common", "include", "ggml/include")
_LIBRARIES = ("llama-common", "llama", "ggml", "ggml-base")


def main() -> None:
    """Downloads what is not there, and compiles."""
    if not HEADERS.exists():
        unpack(pinned("llama-cpp-python"))
    libraries = Path(sysconfig.get_path("platlib")) / "lib"
    command = ["c++", "-std=c++17", "-O2", "-DNDEBUG", *(f"-I{HEADERS / f}" for f in _FOLDERS)]
    command += [str(ROOT / "referee" / "llama_answers.cpp"), "-o", str(BINARY), f"-L{libraries}"]
    command += [f"-l{name}" for name in _LIBRARIES]
    # The libraries look for each other, too, where the program was told to look.
    command += [f"-Wl,-rpath,{libraries}", "-Wl,--disable-new-dtags"]
    subprocess.run(command, check=True)
    print(BINARY)


def pinned(package: str) -> str:
    """A package with its version, as the requirements have it."""
    lines = (ROOT / "referee" / "requirements.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{package}=="))


def unpack(requirement: str) -> None:
    """Downloads a source package, and keeps the headers of the llama.cpp in it."""
    with tempfile.TemporaryDirectory(dir=HEADERS.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", requirement.partition("==")[0], "--dest", scratch, requirement]
        subprocess.run(command, check=True)
        (archive,) = Path(scratch).glob("*.tar.gz")
        kept = Path(scratch) / "kept"
        with tarfile.open(archive) as file:
            for member in file:
                _, _, place = member.name.partition("/vendor/llama.cpp/")
                if member.isfile() and place.endswith(".h") and place.startswith(_FOLDERS):
                    path = kept / place
                    path.parent.mkdir(parents=True, exist_ok=True)
                    content = file.extractfile(member)
                    assert content is not None, "it is a file"
                    path.write_bytes(content.read())
        kept.rename(HEADERS)


if __name__ == "__main__":
    main()
