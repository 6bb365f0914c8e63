"""One rank without a launcher: the program is started as it is."""

from __future__ import annotations

from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest
from workflow.launch.rank_settings import rank_settings


def _line(request: LaunchRequest) -> LaunchLine:
    (program,) = request.programs
    return LaunchLine(list(program.argv), env=rank_settings(request, "").env)


LAUNCHER = Launcher(_line, executable="")
