"""What is asked of the batch system: the file over the site over the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow.cli.main import wf
from workflow.errors import SpecError
from workflow.plan.explain import explain_key
from workflow.plan.job_request import unnamed_options
from workflow.plan.make import make_plan
from workflow.plan.plan_model import AllocationPlan, Plan
from workflow.plan.topology.implicit_stages import complete_pipeline
from workflow.report.show.node_map import job_text
from workflow.site.queue_model import QueueLimit, SiteQueue, SubmitRules
from workflow.site.site_model import Site
from workflow.spec.load import load_pipeline

QUEUES = {
    "batch": SiteQueue(
        nodes=(1, 100), walltime=43200, default=True, limits=[QueueLimit(nodes=(1, 9), walltime=7200)],
    ),
    "debug": SiteQueue(partition="batch", qos="debug", walltime=600),
}  # fmt: skip
RULES = SubmitRules(directives=["--network=job_vni"], constraint="gpu", account_suffix="_g")
SITE = Site(
    site="big", summary="", nodes=100, cores_per_node=4, memory_per_node=2**34, launcher="srun", scheduler="slurm",
    queues=QUEUES, submit=RULES,
)  # fmt: skip


def plan(folder: Path, text: str, *sets: str, site: Site = SITE) -> Plan:
    file = folder / "p.yaml"
    file.write_text(f'wf: 1\nname: a\n{text}\nstages:\n  s: {{command: ["true"], ranks: 8}}\n')
    return make_plan(load_pipeline(file, sets=sets), site, python="/python", wf_version="0")


def asked(folder: Path, text: str, *sets: str, site: Site = SITE) -> AllocationPlan:
    allocation = plan(folder, text, *sets, site=site).allocation
    assert allocation is not None
    return allocation


def test_without_a_request_the_stages_and_the_site_decide(tmp_path: Path) -> None:
    got = asked(tmp_path, "")
    assert (got.scheduler, got.nodes, got.walltime_s, got.queue) == ("slurm", 2, 1800, "batch")
    assert (got.account, got.constraints, got.directives, got.exclusive) == (None, ["gpu"], ["--network=job_vni"], True)
    assert got.grace_s == 120


def test_parts_are_jobs_one_after_the_other(tmp_path: Path) -> None:
    assert asked(tmp_path, "").parts == 1
    got = plan(tmp_path, "allocation: {parts: 5, walltime: 1 h}")
    assert got.allocation is not None and (got.allocation.parts, got.most_parts, got.part_number) == (5, 5, 1)
    assert job_text(got.allocation).endswith("; at most 5 jobs, one after the other")
    said = "s saves nothing, so that it begins anew in each part until it has ended; add `checkpoint` to stages.s"
    assert [each for each in got.advice if "parts" in each] == [f"allocation.parts: {said}"]
    checkpoint = "stages.s.checkpoint={files: chk.*, outputs: {every: 10}, command: ['true', '${{ checkpoint.path }}']}"
    saving = plan(tmp_path, "allocation: {parts: 5, walltime: 1 h}", checkpoint)
    assert not any("parts" in each for each in saving.advice)
    (stage,) = saving.stages
    assert stage.checkpoint is not None
    assert stage.checkpoint.program == ["true", "${{ run.dir }}/stages/s/checkpoint"]
    assert stage.checkpoint.files == "${{ run.dir }}/stages/s/work/chk.*"
    assert [stage.checkpoint.steps_before(number) for number in (0, 9, 10, 25)] == [1, 1, 2, 3]


def test_parts_without_a_walltime_a_scheduler_or_jobs_of_their_own_come_with_a_note(tmp_path: Path) -> None:
    got = plan(tmp_path, "allocation: {parts: 5}")
    assert "allocation.parts: each part may run 30 min, because `walltime` is not given" in got.advice
    got = plan(tmp_path, "allocation: {parts: 5}", site=SITE.model_copy(update={"scheduler": None}))
    assert got.allocation is None and any("allocation is not used" in each for each in got.advice)
    got = plan(tmp_path, "allocation: {parts: 5, walltime: 1 h}", site=SITE.model_copy(update={"scheduler": "flux"}))
    assert got.most_parts == 1
    (note,) = (each for each in got.advice if "parts" in each)
    assert note.startswith("allocation.parts is not used: a job that is submitted in a job of Flux is part of that")


def test_the_file_is_over_the_site_and_set_over_the_file(tmp_path: Path) -> None:
    text = (
        "allocation: {nodes: 3, walltime: 1 h, queue: batch, account: phy1, reservation: mine, "
        "constraints: [cpu, nvme], exclusive: false, grace: 5 min, directives: [--contiguous]}"
    )
    got = asked(tmp_path, text, "allocation.nodes=4", "allocation.account=phy2_g")
    assert got == AllocationPlan(
        scheduler="slurm", nodes=4, walltime_s=3600, queue="batch", account="phy2_g", reservation="mine",
        constraints=["cpu", "nvme"], exclusive=False, grace_s=300, directives=["--network=job_vni", "--contiguous"],
    )  # fmt: skip
    assert asked(tmp_path, "allocation: {account: phy1}").account == "phy1_g"


def test_spare_nodes_are_added(tmp_path: Path) -> None:
    assert asked(tmp_path, "allocation: {spare_nodes: 2}").nodes == 4


def test_a_queue_may_have_another_name_in_the_scheduler_and_short_limits(tmp_path: Path) -> None:
    got = asked(tmp_path, "allocation: {queue: debug}")
    assert (got.queue, got.partition, got.qos) == ("debug", "batch", "debug")
    assert (got.walltime_s, got.grace_s) == (600, 60)


def test_limits_depend_on_the_number_of_nodes(tmp_path: Path) -> None:
    assert asked(tmp_path, "allocation: {nodes: 10, walltime: 12 h}").walltime_s == 43200
    with pytest.raises(SpecError, match=r"12 h, but queue batch takes jobs of 9 nodes of at most 2 h"):
        asked(tmp_path, "allocation: {nodes: 9, walltime: 12 h}")


def test_a_queue_may_take_no_short_jobs(tmp_path: Path) -> None:
    site = SITE.model_copy(update={"queues": {"batch": SiteQueue(default=True, min_walltime=300)}})
    with pytest.raises(SpecError, match="1 min, but queue batch takes jobs of at least 5 min"):
        asked(tmp_path, "allocation: {walltime: 1 min}", site=site)


def test_without_a_scheduler_a_request_is_a_note(tmp_path: Path) -> None:
    site = SITE.model_copy(update={"scheduler": None, "queues": {}})
    made = plan(tmp_path, "allocation: {nodes: 9}", site=site)
    assert made.allocation is None
    assert any(
        "the file of site big has no `scheduler:`" in text and "write `scheduler: slurm`" in text
        for text in made.advice
    )


def test_queues_that_the_site_file_does_not_know_are_left_to_the_scheduler(tmp_path: Path) -> None:
    site = SITE.model_copy(update={"queues": {}})
    assert asked(tmp_path, "allocation: {queue: any, walltime: 9 d}", site=site).queue == "any"


def test_the_plan_says_why(tmp_path: Path) -> None:
    reasons = plan(tmp_path, "").reasons
    assert reasons["allocation.nodes"] == "the stages need 2, and 0 are spare"
    assert reasons["allocation.queue"] == "the default of site big"


ROUTED = SiteQueue(
    nodes=(2, 64), walltime=7200, min_walltime=300, routing=True, limits=[QueueLimit(nodes=(2, 8), walltime=3600)],
)  # fmt: skip


@pytest.mark.parametrize(
    ("queues", "request_", "message"),
    [
        ({"route": ROUTED, "small": SiteQueue(nodes=(1, 16), walltime=7200)}, "{queue: route, nodes: 10}",
         "allocation.nodes: 10 nodes, but queue route takes no job of 10 nodes: it would drop the job silently\n"
         "  choose a queue that takes it: `queue: small`"),
        ({"route": ROUTED}, "{queue: route, nodes: 4, walltime: 2 min}",
         "allocation.walltime: 2 min, but queue route takes jobs of 4 nodes of at least 5 min: it would drop the job "
         "silently\n  write `walltime: 5 min`"),
        ({"route": ROUTED}, "{queue: route, nodes: 4, walltime: 2 h}",
         "allocation.walltime: 2 h, but queue route takes jobs of 4 nodes of at most 1 h: it would drop the job "
         "silently\n  write `walltime: 1 h`"),
        ({"a": SiteQueue(nodes=(1, 4)), "b": SiteQueue(nodes=(1, 8))}, "{nodes: 9}",
         "allocation.nodes: no queue of site big takes 9 nodes\n"
         "  ask for fewer nodes: a 1 to 4, b 1 to 8"),
        ({"a": SiteQueue(walltime=3600)}, "{walltime: 2 h}",
         "allocation.walltime: no queue of site big takes 2 nodes for 2 h\n"
         "  ask for another time: queues that take 2 nodes are a (up to 1 h)"),
        ({"long": SiteQueue(nodes=(1, 4), walltime=72 * 3600), "few": SiteQueue(nodes=(1, 1), min_walltime=300),
          "wide": SiteQueue(nodes=(1, 99), walltime=48 * 3600, min_walltime=300)}, "{walltime: 100 h}",
         "allocation.walltime: no queue of site big takes 2 nodes for 100 h\n"
         "  ask for another time: queues that take 2 nodes are long (up to 72 h), wide (5 min to 48 h)"),
        ({"few": SiteQueue(nodes=(1, 8)), "wide": SiteQueue(nodes=(1, 99), walltime=3600)},
         "{queue: few, nodes: 20, walltime: 2 h}",
         "allocation.nodes: 20 nodes, but queue few takes jobs of 1 to 8 nodes\n"
         "  ask for another time: queues that take 20 nodes are wide (up to 1 h)"),
        ({}, "{spare_nodes: 99}",
         "allocation.spare_nodes: 101 nodes, but site big has 100; the stages need 2 plus 99 spare nodes\n"
         "  write `spare_nodes: 98`"),
        ({}, "{nodes: 101}",
         "allocation.nodes: 101 nodes, but site big has 100; the stages need 2\n  write `nodes: 100`"),
    ],
)  # fmt: skip
def test_what_no_queue_takes_is_refused(
    tmp_path: Path, queues: dict[str, SiteQueue], request_: str, message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        asked(tmp_path, f"allocation: {request_}", site=SITE.model_copy(update={"queues": queues}))
    (problem,) = caught.value.problems
    assert message in str(problem)


def test_a_stage_without_a_place_is_the_only_mistake(tmp_path: Path) -> None:
    site = SITE.model_copy(update={"queues": {"a": SiteQueue(nodes=(1, 4), default=True)}})
    with pytest.raises(SpecError) as caught:
        plan(tmp_path, "", "stages.s.ranks=4000", "stages.s.place.nodes=1000", site=site)
    assert [problem.key for problem in caught.value.problems] == ["stages.s.place.nodes"]


def test_the_users_site_file_may_name_the_account(tmp_path: Path) -> None:
    site = SITE.model_copy(update={"submit": RULES.model_copy(update={"account": "phy1"})})
    assert asked(tmp_path, "", site=site).account == "phy1_g"
    assert asked(tmp_path, "allocation: {account: phy2}", site=site).account == "phy2_g"


def test_what_a_job_does_not_name_and_its_site_asks_for(tmp_path: Path) -> None:
    needy = SubmitRules(account_needed=True)
    queues = {"few": SiteQueue(nodes=(1, 1)), "many": SiteQueue(nodes=(1, 9)), "all": SiteQueue()}
    site = SITE.model_copy(update={"queues": queues, "submit": needy})
    said = [str(note) for note in unnamed_options(asked(tmp_path, "", site=site), site)]
    assert said == [
        "note: no queue is given, and site big has no default queue\n  `--set allocation.queue=NAME`: all, many",
        "note: no account is given, and site big requires one\n  `--set allocation.account=NAME`, or `extends: big` "
        "and `submit: {account: NAME}` in a site file of your own",
    ]
    assert unnamed_options(asked(tmp_path, "allocation: {queue: all, account: a}", site=site), site) == []
    bare = SITE.model_copy(update={"queues": {}, "submit": SubmitRules()})
    assert unnamed_options(asked(tmp_path, "", site=bare), bare) == [], "the scheduler has its own default"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("queue", ["from default", "in force: batch", "because the default of site big"]),
        ("account", ["from default", "in force: phy1_g"]),
        ("walltime", ["from default", "in force: 30 min 00 s", "because the default"]),
    ],
)
def test_explained_without_an_allocation_in_the_file(tmp_path: Path, key: str, expected: list[str]) -> None:
    site = SITE.model_copy(update={"submit": RULES.model_copy(update={"account": "phy1"})})
    made = plan(tmp_path, "", site=site)
    lines = explain_key(complete_pipeline(load_pipeline(tmp_path / "p.yaml")), made, f"allocation.{key}").splitlines()
    assert lines == [f"allocation.{key} = null", *(f"  {line}" for line in expected)]


def test_the_plan_shows_what_its_job_says(tmp_path: Path) -> None:
    assert job_text(asked(tmp_path, "")) == "job: queue batch, account not named, walltime 30 min 00 s"


def test_notes_on_the_job_are_on_standard_error(tmp_path: Path) -> None:
    plan(tmp_path, "")
    given = ["plan", str(tmp_path / "p.yaml"), "--site", "aurora"]
    for more in ([], ["--job-script"]):
        ended = CliRunner().invoke(wf, [*given, *more])
        assert ended.exit_code == 0
        assert "no queue is given, and site aurora has no default queue" in ended.stderr
        assert "no account is given" in ended.stderr and "is given" not in ended.stdout
        named = ["--set", "allocation.queue=debug", "--set", "allocation.account=a"]
        assert "is given" not in CliRunner().invoke(wf, [*given, *more, *named]).stderr
