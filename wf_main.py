"""The start of the command `wf`, outside of its package: Python may find another `workflow` in that one's place."""

import importlib.util
import sys
from pathlib import Path


def main() -> None:
    """Run `wf`; where Python would import another `workflow`, say which."""
    own, found = Path(__file__).with_name("workflow") / "__init__.py", importlib.util.find_spec("workflow")
    other = found.origin if found is not None else None
    if other is not None and own.exists() and not own.samefile(other):
        text = f"error: Python imports {other} in place of wf's own package `workflow`\n"
        sys.stderr.write(f"{text}  rename that file, or take its folder out of PYTHONPATH\n")
        sys.exit(2)
    from workflow.cli.main import main as run

    run()
