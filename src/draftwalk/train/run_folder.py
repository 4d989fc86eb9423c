"""The folder of a run, and what is in it.

config.json              the drafter's configuration
run.json                 a list: every time the run began or went on
log.jsonl                numbers on the way, a JSON object a line
checkpoint.safetensors   where it stands
stable.safetensors       where it stood before its learning rate fell: from there it is extended
.lock                    held by the process that trains
drafter/ drafter.gguf    the drafter, whenever it was exported
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from draftwalk.draft.config import OWN_TABLE
from draftwalk.errors import UserError
from draftwalk.train.checkpoints import Standing, read_standing, write_standing
from draftwalk.train.curves import begun_line
from draftwalk.train.export import FOLDER, SMALL, check_places
from draftwalk.train.lock import alone_in
from draftwalk.weights.json_file import read_json_object
from draftwalk.weights.whole_file import whole_file

CONFIG, RUN, LOG = "config.json", "run.json", "log.jsonl"
CHECKPOINT, STABLE = "checkpoint.safetensors", "stable.safetensors"


class RunFolder:
    """Reads and writes a run's files.

    Args:
        path: the folder; it is made when it is worked in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def alone(self) -> AbstractContextManager[None]:
        """Holds the folder; see `alone_in`."""
        return alone_in(self.path)

    @property
    def begun(self) -> bool:
        """Whether there is a run in it."""
        return (self.path / CONFIG).exists()

    @property
    def saved(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return (self.path / CHECKPOINT).exists()

    @property
    def log(self) -> Path:
        """The log's file."""
        return self.path / LOG

    def config(self) -> dict[str, object]:
        """The drafter's configuration."""
        return read_json_object(self.path / CONFIG)

    def begin(self, config: Mapping[str, object]) -> None:
        """Makes it the folder of a run.

        Raises:
            UserError: it is the folder of a run with another drafter, or holds a drafter that no
                run has made.
        """
        check_places(self.path)
        if self.begun:
            there = self.config()
            differing = sorted(
                key for key in {*there, *config} - {OWN_TABLE} if there.get(key) != config.get(key)
            )
            if differing:
                raise UserError(
                    f"{self.path} holds a run whose drafter has another {differing[0]}",
                    "go on with the same shape, or use another folder",
                )
            return
        for name in (FOLDER, SMALL):
            if (self.path / name).exists():
                raise UserError(
                    f"{self.path} holds {name}, which is of no run there", "name another folder"
                )
        self._write(CONFIG, config)

    def note(self, facts: Mapping[str, object]) -> None:
        """Adds to the list of beginnings.

        Raises:
            UserError: the list is damaged.
        """
        path = self.path / RUN
        try:
            known = json.loads(path.read_bytes()) if path.exists() else []
        except ValueError:
            known = None
        if not isinstance(known, list):
            raise UserError(f"{path} is no list in JSON", "move it away: it is only a record")
        self._write(RUN, [*known, dict(facts)])

    def tell_beginning(self, step: int) -> None:
        """Goes on with the log from an update; a line that was cut short is taken away."""
        if self.log.exists():
            with self.log.open("r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
        self.tell(begun_line(step))

    def tell(self, line: Mapping[str, object]) -> None:
        """Adds a line to the log."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, standing: Standing, name: str = CHECKPOINT) -> None:
        """Writes where the run stands."""
        write_standing(self.path / name, standing)

    def standing(self) -> Standing | None:
        """Where to go on; `None` at the start.

        That is the newest checkpoint, but for a run that has ended: from the place where its
        learning rate began to fall.
        """
        if not self.saved:
            return None
        newest = read_standing(self.path / CHECKPOINT)
        ended = newest.progress.get("ended") is True
        return read_standing(self.path / STABLE) if ended else newest

    def _write(self, name: str, value: object) -> None:
        with whole_file(self.path / name) as file:
            file.write((json.dumps(value, indent=1) + "\n").encode())
