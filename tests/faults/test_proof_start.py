"""The proof under launchers that take their time, or say nothing: MPICH's mpiexec in a script, on this machine."""

from __future__ import annotations

import json
import select
import sys
import threading
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage, write_run
from workflow.launch.launchers import ProcessSpec
from workflow.plan.launch_requests import GrantedNodes
from workflow.plan.plan_model import LaunchPlan, Placement, Plan
from workflow.run.proof import proof_processes, prove
from workflow.run.proof.proof_model import Proof
from workflow.run.proof.proof_processes import ShortProcess, run_short
from workflow.run.proof.prove import Prover, take_proof

MPIEXEC = Path(sys.executable).parent / "mpiexec"


def plan_with(launcher: Path, text: str, start_s: float) -> Plan:
    """Two ranks, started by this script."""
    launcher.write_text(f"#!/bin/sh\n{text}\n")
    launcher.chmod(0o755)
    place = Placement(nodes=[(0, 2)], ranks_per_node=2, cores=[], cores_per_rank=0)
    line = LaunchPlan(launcher="mpiexec", executable=str(launcher))
    plan = make_plan([make_stage("md", ["true"], ranks=2, launch=line, placement=place)], start=start_s)
    return plan.model_copy(update={"proof": "strict"})


def test_launcher_that_is_slower_than_the_answers_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_processes, "ANSWER_S", 0.5)
    plan = plan_with(tmp_path / "slow", f'sleep 1.5; exec {MPIEXEC} "$@"', 60.0)
    proof = take_proof(write_run(plan, tmp_path / "run"), plan, GrantedNodes(), threading.Event())
    assert [rank.rank for rank in sorted(proof.ranks, key=lambda each: each.rank)] == [0, 1], proof.differences


def test_launcher_that_starts_nothing_has_the_time_of_the_plan(tmp_path: Path) -> None:
    plan = plan_with(tmp_path / "dumb", "echo waiting for resources >&2; exec sleep 300", 1.0)
    proof = take_proof(write_run(plan, tmp_path / "run"), plan, GrantedNodes(), threading.Event())
    texts = [each.text for each in proof.differences]
    assert texts[0] == "the launch line of md started no rank (no answer within 1 s): waiting for resources"


def test_difference_is_a_warning_in_all_that_is_kept_where_the_pipeline_says_so(tmp_path: Path) -> None:
    plan = plan_with(tmp_path / "dumb", "exit 3", 60.0)
    states = {}
    for way in ("strict", "warn"):
        its = plan.model_copy(update={"proof": way})
        proof = take_proof(write_run(its, tmp_path / way), its, GrantedNodes(), threading.Event())
        levels = {each.level for each in proof.differences}
        states[way] = proof.state, proof.to_event(1.0).state, json.loads(proof.to_json())["state"], levels
    assert states == {
        "strict": ("refused", "refused", "refused", {"error"}),
        "warn": ("differs", "differs", "differs", {"warning"}),
    }


def test_launchers_do_not_run_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counts, while it runs, how many there are."""
    monkeypatch.setattr(proof_processes, "AT_ONCE", 3)
    count = f"touch {tmp_path}/on.$0; ls {tmp_path} | grep -c on. ; sleep 0.3; rm {tmp_path}/on.$0"
    processes = [
        ShortProcess(
            f"p{number}",
            ProcessSpec(f"p{number}", ["sh", "-c", count, str(number)], tmp_path, str(tmp_path), "none"),
            tmp_path / "logs" / f"{number}",
        )
        for number in range(8)
    ]
    units = [processes[:2], *([each] for each in processes[2:])]
    run_short(units, tmp_path, threading.Event(), lambda *_: None, lambda _: False)
    assert [each.code for each in processes] == [0] * 8
    assert max(int(line) for each in processes for _, line in each.lines) <= 3


def test_launchers_that_take_too_long_make_room_for_those_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof_processes, "AT_ONCE", 1)
    slow, quick = (
        ShortProcess(name, ProcessSpec(name, argv, tmp_path, str(tmp_path), "none"), tmp_path / "logs" / name)
        for name, argv in (("slow", ["sleep", "300"]), ("quick", ["true"]))
    )
    run_short([[slow], [quick]], tmp_path, threading.Event(), lambda *_: None, lambda its: slow in its)
    assert (slow.code, quick.code) == (None, 0)


def test_proof_that_hangs_does_not_hold_up_the_end_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mock: no file system of this machine hangs."""
    plan = plan_with(tmp_path / "dumb", "exit 3", 60.0)
    hung, over = threading.Event(), threading.Event()

    def hang(*_: object) -> Proof:
        hung.set()
        over.wait(60)
        return Proof("proved", 0.0, 0.0, 0.0)

    monkeypatch.setattr(prove, "take_proof", hang)
    monkeypatch.setattr(prove, "_CLOSE_S", 0.1)
    prover = Prover(write_run(plan, tmp_path / "run"), plan, GrantedNodes())
    prover.start()
    try:
        assert hung.wait(30)
        prover.close()
        assert not over.is_set() and prover.take() is None
    finally:
        over.set()
    assert select.select([prover.finished], [], [], 30)[0], "its end is not written into a descriptor of another file"
