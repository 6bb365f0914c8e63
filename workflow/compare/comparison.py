"""What a comparison of two runs found, as frozen models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, computed_field

from workflow.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_RUN_FAILED
from workflow.formatting import plural, size
from workflow.spec.models.units import Spec


class Difference(Spec):
    """How one variable (or attribute, or the file as a whole) differs."""

    what: Literal["values", "shape", "type", "missing", "attribute", "steps", "unreadable"]
    name: str = Field(description="the variable or attribute; empty for the file as a whole")
    step: int | None = Field(None, description="the first step that differs, from 0")
    steps: int = Field(1, description="how many steps differ")
    message: str = Field(description="the first difference in words: A's side, then B's")
    values: int = Field(0, description="how many values differ, over all steps")
    of: int = Field(0, description="number of values in these steps")
    max_abs: float | None = Field(None, description="largest |a - b|; None: NaN against a number, or no numbers")
    max_rel: float | None = Field(None, description="largest |a - b| / max(|a|, |b|)")
    where: list[int] = Field([], description="index of the largest difference of the first step")


class FileComparison(Spec):
    """One file that both sides have. `variables` counts names, `bytes` what was compared of one side."""

    path: str = Field(description="inside the run directory")
    steps: int
    variables: int
    bytes: int
    differences: list[Difference] = Field([])
    not_compared: list[str] = Field(
        [], description="attributes that differ and do not count: when and by what an openPMD file was written"
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def identical(self) -> bool:
        """No difference was found."""
        return not self.differences


class Comparison(Spec):
    """Two runs, or two files, side by side."""

    comparison_version: Literal[1] = 1
    a: str = Field(description="the first run or file, as it was named")
    b: str = Field(description="the second one")
    tolerance: float = Field(description="largest relative difference between values that count as equal")
    files: list[FileComparison] = Field(description="files that both sides have")
    only_a: list[str] = Field([], description="files that B does not have")
    only_b: list[str] = Field([], description="files that A does not have")
    notes: list[str] = Field([], description="remarks on the comparison, e.g. that a run did not succeed")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def identical(self) -> bool:
        """Something was compared, all of it is equal, and no side lacks a result."""
        same = any(file.variables for file in self.files) and all(file.identical for file in self.files)
        return same and not self.lacking

    @property
    def lacking(self) -> list[str]:
        """Results that only one side has. A stream may be missing: SST leaves no file."""
        return [path for path in (*self.only_a, *self.only_b) if not path.startswith("streams/")]

    @property
    def unreadable(self) -> list[Difference]:
        """The files that cannot be read: what they hold is not known."""
        return [found for found in self._found if found.what == "unreadable" and not found.name]

    @property
    def _found(self) -> list[Difference]:
        return [found for file in self.files for found in file.differences]

    @property
    def _differs(self) -> bool:
        """A difference is known, whatever cannot be read."""
        return any(found.what != "unreadable" for found in self._found)

    @property
    def exit_code(self) -> int:
        """0 identical, 1 different, 2 nothing to compare, or a file or a variable cannot be read."""
        if self.identical:
            return EXIT_OK
        if self.unreadable:
            return EXIT_BAD_INPUT
        different = self._differs or (self.files and self.lacking)
        return EXIT_RUN_FAILED if different else EXIT_BAD_INPUT

    def to_text(self) -> str:
        """The verdict in one line, e.g. `identical: 2 files, 41 steps, 8 variables, 312 MB`."""
        count = plural(len(self.files), "file")
        if self.identical:
            steps, variables = sum(f.steps for f in self.files), sum(f.variables for f in self.files)
            alike = f"equal to {self.tolerance:g} relative" if self.tolerance else "identical"
            volume = size(sum(f.bytes for f in self.files))
            return f"{alike}: {count}, {plural(steps, 'step')}, {plural(variables, 'variable')}, {volume}"
        if self.unreadable:
            return f"not compared: {len(self.unreadable)} of {count} cannot be read"
        if self._found and not self._differs:
            return f"not compared: {', '.join(sorted({found.name for found in self._found}))} cannot be read"
        different = sum(not file.identical for file in self.files)
        if different:
            return f"different: {different} of {count}"
        if self.files and self.lacking:
            return f"different: only one side has {', '.join(self.lacking)}"
        return "nothing to compare: " + (f"{count} without data" if self.files else "no file that both have")
