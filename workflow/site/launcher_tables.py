"""How each version of a launcher spells its options: `configs/launchers/NAME.yaml`, a table per launcher."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from workflow.errors import SpecError
from workflow.launch.launchers import LAUNCHERS, known_launcher
from workflow.spec.config_dirs import read_config
from workflow.spec.models.strict import Spec
from workflow.spec.validation_messages import validated


def _with_numbers(version: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)*\S*", version):
        raise ValueError(f'expected a version such as "24.05", got "{version}"')
    return version


Version = Annotated[str, AfterValidator(_with_numbers)]


class LauncherTable(Spec):
    """The options of a launcher. In each, `{}` is where the value goes; an empty text: that version has none."""

    launcher: Annotated[str, AfterValidator(known_launcher)]
    summary: str
    source: str = Field(description="where its options are described")
    assumed: Version = Field(description="the version, where the site does not say")
    options: dict[str, str] = Field(description="of the oldest version")
    since: dict[Version, dict[str, str]] = Field(default_factory=dict, description="version → what changed with it")

    def of_version(self, version: str | None) -> dict[str, str]:
        """The options of a version, by default of the assumed one."""
        wanted, found = _numbers(version or self.assumed), dict(self.options)
        for changed in sorted(self.since, key=_numbers):
            if _numbers(changed) <= wanted:
                found |= self.since[changed]
        return found


def launcher_options(launcher: str, version: str | None = None) -> dict[str, str]:
    """The options of a version of a launcher; {} of `none`, which has no options.

    Raises SpecError where its table is wrong.
    """
    if not LAUNCHERS[launcher].options:
        return {}
    node = read_config("launchers", launcher)
    table, problems = validated(LauncherTable, node)
    if table is None or problems:
        raise SpecError(problems)
    return table.of_version(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
