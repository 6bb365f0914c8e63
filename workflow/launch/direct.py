"""One rank without a launcher: the program is started as it is."""

from __future__ import annotations

from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest


def _line(request: LaunchRequest) -> LaunchLine:
    (program,) = request.programs
    return LaunchLine(list(program.argv))


LAUNCHER = Launcher(_line, executable="")
