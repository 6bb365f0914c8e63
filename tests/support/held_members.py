"""Gray–Scott as a component of a test's own, of which some members wait: what ends them meets them at a known step."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tests.support.pipelines import ROOT

# A member is known by its `seed`. It has written three steps or more when it gets there.
WAIT = """\
                if args.seed in {who} and step == 4 * args.write_every:
                    while not Path(f"{folder}/go-{{args.seed}}").exists():
                        time.sleep(0.01)
"""
PLACE = "                state.save("


def held_gray_scott(folder: Path, who: Collection[int]) -> None:
    """Write the component `folder`/held. Members of `who` wait before their step 4 until `let_go` is called."""
    component = ROOT / "components/gray_scott"
    held = folder / "held"
    held.mkdir()
    text = (component / "component.yaml").read_text()
    (held / "component.yaml").write_text(text.replace("component: gray_scott", "component: held"))
    program = (component / "program.py").read_text()
    assert program.count(PLACE) == 1
    program = program.replace(PLACE, WAIT.format(who=list(who), folder=held) + PLACE)
    program = program.replace("import numpy as np\n", "import time\nfrom pathlib import Path\nimport numpy as np\n", 1)
    (held / "program.py").write_text(program)


def let_go(folder: Path, member: int) -> None:
    """Let a member go on, now and when it is started again."""
    (folder / f"held/go-{member}").touch()
