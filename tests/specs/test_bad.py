"""One tiny file per mistake: `bad/NAME.yaml`, and the message that users get for it in `bad/NAME.expected`.

A first line `# wf check ARGUMENTS` gives the arguments. After a deliberate change of messages:
`pytest tests/specs/test_bad.py --bless`, then read the difference.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from workflow.cli.main import main
from workflow.cli.pipeline_verbs import check
from workflow.errors import SpecError
from workflow.plan.make_plan import make_plan
from workflow.site.load_site import load_site
from workflow.site.site_model import Site
from workflow.spec import shipped
from workflow.spec.load import load_pipeline

HERE = Path(__file__).parent
BAD = HERE / "bad"
# Not this machine's: messages must not depend on it.
SITE = Site(
    site="test", summary="4 cores", nodes=1, cores_per_node=4, memory_per_node=2**33, planes=["tcp", "mpi"],
    operators=["blosc", "zfp"],
)  # fmt: skip
# Those whose facts are all in their files.
SHIPPED_SITES = ("alps", "frontier", "perlmutter-cpu")
CASES = sorted(path.name for path in BAD.glob("*.yaml"))


@pytest.fixture(autouse=True)
def in_bad_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in messages are as users type them: here just the name."""
    monkeypatch.chdir(BAD)
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [HERE / "components"])
    monkeypatch.delenv("WF_CONFIGS", raising=False)


def arguments(case: str) -> list[str]:
    """The arguments that the file asks for, and the file."""
    first = (BAD / case).read_bytes().split(b"\n")[0].decode("utf-8", "replace")
    given = re.fullmatch(r"# wf check (.*)", first)
    return [*(shlex.split(given[1]) if given else []), case]


def message(case: str) -> str:
    """What `wf check` says, on a machine of four cores, or at a site whose file the pipeline names."""
    found = check.make_context("check", arguments(case)).params
    with pytest.raises(SpecError) as caught:
        loaded = load_pipeline(
            found["pipeline"], profiles=found["profiles"], sets=found["sets"], via=found["via"], site=found["site"]
        )
        known = "/" in loaded.spec.site or loaded.spec.site in SHIPPED_SITES
        own = load_site(loaded.spec.site, BAD) if known else SITE
        make_plan(loaded, own, python="/python", wf_version="0")
    return str(caught.value).replace(str(BAD), "<here>") + "\n"


@pytest.mark.parametrize("case", CASES)
def test_message(case: str, bless: bool) -> None:
    said = message(case)
    expected = (BAD / case).with_suffix(".expected")
    if bless:
        expected.write_text(said)
    assert expected.is_file(), f"no {expected.name}: run with --bless, then read it"
    assert said == expected.read_text()


@pytest.mark.parametrize("case", CASES)
def test_every_problem_has_its_place_and_a_way_out(case: str) -> None:
    problems = re.split(r"\n(?! )", message(case).rstrip("\n"))
    for problem in problems:
        first, *rest = problem.split("\n")
        assert re.match(
            rf"error: ({re.escape(case)}(:[1-9][0-9]*:[1-9][0-9]*)?|--(set|via|profile|site) .*): ", first
        ), first
        assert rest, f"says nothing to type next: {problem}"


@pytest.mark.parametrize("case", CASES)
def test_no_traceback(case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["wf", "check", *arguments(case)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    heads = [number for number, line in enumerate(said.err.splitlines()) if not line.startswith(" ")]
    for number in heads:
        first, *below = said.err.splitlines()[number : number + 3]
        assert re.match(rf"error: ({re.escape(case)}|--(set|via|profile|site) )", first), first
        if re.match(rf"error: {re.escape(case)}:\d", first):
            assert re.match(r"  \d+ \| ", below[0]) and re.fullmatch(r" +\| +\^+", below[1]), said.err


def test_nothing_is_expected_of_files_that_are_gone() -> None:
    assert {path.stem for path in BAD.glob("*.expected")} == {Path(case).stem for case in CASES}
