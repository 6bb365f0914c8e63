"""Output to pipes, whose reader may be gone."""

from __future__ import annotations

import io
import os
from pathlib import Path

from workflow.report.show.terminal import has_reader, print_plain


def test_a_pipe_whose_reader_has_left_is_known_before_and_after_the_next_line() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        assert has_reader(pipe) and print_plain(pipe, "one")
        os.close(reading)
        assert not has_reader(pipe)
        assert not print_plain(pipe, "two")


def test_what_is_no_pipe_has_a_reader(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        assert has_reader(file)
    assert has_reader(file), "closed"
    assert has_reader(io.StringIO())
