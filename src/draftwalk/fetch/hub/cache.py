"""A model's place in the hub's cache, laid out as the huggingface-hub library does.

    models--owner--name/blobs/SUM                 a file by the sum of its content
    models--owner--name/snapshots/COMMIT/PATH     a link to it, under its own name
    models--owner--name/refs/main                 the newest commit that is known
    .locks/models--owner--name/SUM.lock           held by whoever fetches it

So other programs find what is fetched here, and what they fetched is used here.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST_REF = 64


@dataclass(frozen=True, slots=True)
class RepoCache:
    """What is kept of one model.

    Attributes:
        cache: the folder of all models.
        repo: owner/name.
    """

    cache: Path
    repo: str

    @property
    def folder(self) -> Path:
        """This model's folder."""
        return self.cache / self._name

    @property
    def _name(self) -> str:
        return "--".join(("models", *self.repo.split("/")))

    def snapshot(self, commit: str) -> Path:
        """Where the files of a commit lie under their own names."""
        return self.folder / "snapshots" / commit

    def blob(self, digest: str) -> Path:
        """Where a content lies, or will be."""
        return self.folder / "blobs" / digest

    def lock(self, digest: str) -> Path:
        """The lock of a content."""
        return self.cache / ".locks" / self._name / f"{digest}.lock"

    def commit(self) -> str | None:
        """The newest commit that was fetched."""
        ref = self.folder / "refs" / "main"
        try:
            with ref.open("rb") as file:
                text = file.read(_LONGEST_REF).decode("ascii", errors="replace").strip()
        except OSError:
            return None
        return text if _COMMIT.fullmatch(text) else None

    def remember(self, commit: str) -> None:
        """Makes a commit the newest one."""
        if self.commit() == commit:
            return
        ref = self.folder / "refs" / "main"
        ref.parent.mkdir(parents=True, exist_ok=True)
        who = f"{os.getpid()}.{threading.get_ident()}"  # threads of one process fetch side by side
        beside = ref.with_name(f"{ref.name}.{who}.partial")
        beside.write_text(commit, encoding="ascii")
        beside.replace(ref)

    def files(self, commit: str) -> list[str]:
        """Paths of the files that are there of a commit; links to nothing are left out."""
        folder = self.snapshot(commit)
        found = (path for path in folder.rglob("*") if path.is_file())
        return sorted(path.relative_to(folder).as_posix() for path in found)

    def has(self, commit: str, file: str, size: int) -> bool:
        """Whether a file is there, as long as it should be."""
        path = self.snapshot(commit) / file
        return path.is_file() and path.stat().st_size == size

    def show(self, commit: str, file: str, digest: str) -> None:
        """Gives a content that is there its name in a commit."""
        path, blob = self.snapshot(commit) / file, self.blob(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        try:
            path.symlink_to(os.path.relpath(blob, path.parent))
        except (OSError, NotImplementedError):  # Windows lets not everybody make links
            blob.replace(path)
