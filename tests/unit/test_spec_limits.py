"""Numbers in a file that are too large: refused with their place, before anything is made of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HUGE = 10**30
# (what stands in the file, where in it the message points to, what is at most allowed)
STAGE = {
    "members: {n}": ("stages.a.members", 10**4),
    "members: {{count: {n}, draw: {{F: {{from: 0, to: 1}}}}}}": ("stages.a.members", 10**4),
    "members: {{count: 4, at_once: {n}}}": ("stages.a.members.at_once", 10**4),
    "ranks: {n}": ("stages.a.ranks", 10**7),
    "place: {{nodes: {n}}}": ("stages.a.place.nodes", 10**5),
    "place: {{ranks_per_node: {n}}}": ("stages.a.place.ranks_per_node", 10**7),
    "place: {{cores_per_rank: {n}}}": ("stages.a.place.cores_per_rank", 10**5),
    "place: {{threads_per_rank: {n}}}": ("stages.a.place.threads_per_rank", 10**5),
    "place: {{gpus_per_rank: {n}}}": ("stages.a.place.gpus_per_rank", 10**5),
}
STREAM = {
    "queue: {{limit: {n}}}": ("streams.x.queue.limit", 10**12),
    "step_size: {n}": ("streams.x.step_size", 2**63 - 1),
    "step_size: {n} GiB": ("streams.x.step_size", 2**63 - 1),
    "tap: {{t: {{component: statistics, every: {n}}}}}": ("streams.x.tap.t.every", 10**12),
    "tap: {{t: {{component: statistics, ranks: {n}}}}}": ("streams.x.tap.t.ranks", 10**7),
}
TOP = {
    "allocation: {{nodes: {n}}}": ("allocation.nodes", 10**5),
    "allocation: {{spare_nodes: {n}}}": ("allocation.spare_nodes", 10**5),
    "allocation: {{parts: {n}}}": ("allocation.parts", 10**4),
}
WITH = {"steps: {n}": ("stages.s.with.steps", 2**63 - 1), "size: [{n}]": ("stages.s.with.size", 2**63 - 1)}
CAMPAIGN = {"repetitions: {n}": ("repetitions", 10**4)}

# In a process of its own, which is to fail, and not this machine, if a list is made of such a number.
CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from pathlib import Path
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.file.trials import make_trials
from workflow.errors import SpecError
from workflow.spec.load import load_pipeline
found = []
for text in json.loads(sys.stdin.read()):
    Path("f.yaml").write_text(text)
    try:
        make_trials(load_campaign("f.yaml")) if "campaign" in text else load_pipeline("f.yaml")
        found.append([])
    except SpecError as error:
        found.append([(each.key, each.line, each.message) for each in error.problems])
print(json.dumps(found))
"""


def problems_of(texts: list[str], folder: Path) -> list[list[tuple[str, int, str]]]:
    (folder / "p.yaml").write_text("wf: 1\nname: p\nstages: {a: {command: [echo]}}\n")
    ran = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=folder, input=json.dumps(texts), capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: list[list[tuple[str, int, str]]] = json.loads(ran.stdout)
    return found


def texts_of(number: object) -> dict[str, tuple[str, int]]:
    head = "wf: 1\nname: p\n"
    pair = "stages: {s: {component: gray_scott}, r: {component: 'null'}}\n"
    found = {f"{head}stages: {{a: {{command: [echo],\n  {k.format(n=number)}}}}}\n": v for k, v in STAGE.items()}
    found |= {f"{head}{pair}streams: {{x: {{from: s, to: r,\n {k.format(n=number)}}}}}\n": v for k, v in STREAM.items()}
    found |= {f"{head}{pair}streams: {{x: {{from: s, to: r}}}}\n{k.format(n=number)}\n": v for k, v in TOP.items()}
    component = f"{head}stages: {{s: {{component: gray_scott, with: {{\n WITH}}}}, r: {{component: 'null'}}}}\n"
    component += "streams: {x: {from: s, to: r}}\n"
    found |= {component.replace("WITH", k.format(n=number)): v for k, v in WITH.items()}
    campaign = "wf: 1\ncampaign: c\npipeline: p.yaml\nmatrix: {stages.a.env.X: [a, b]}\nmetrics: {t: run.wall_s}\n"
    return found | {f"{campaign}{k.format(n=number)}\n": v for k, v in CAMPAIGN.items()}


def test_what_is_too_large_is_refused_with_its_place(tmp_path: Path) -> None:
    cases = texts_of(HUGE)
    for text, (key, most), found in zip(cases, cases.values(), problems_of(list(cases), tmp_path), strict=True):
        problems = [each for each in found if each[0].startswith(key)]
        assert problems, (text, found)
        assert f"at most {most}" in problems[0][2] and problems[0][1] > 1, (text, problems)


def test_products_are_counted_before_they_are_made(tmp_path: Path) -> None:
    ten = list(range(10))
    matrix = {f"v{number}": ten for number in range(12)}
    members = {"wf": 1, "name": "p", "stages": {"a": {"command": ["echo"], "members": {"matrix": matrix}}}}
    campaign = {
        "wf": 1, "campaign": "c", "pipeline": "p.yaml", "metrics": {"t": "run.wall_s"},
        "matrix": {f"stages.a.env.V{number}": ten for number in range(12)},
    }  # fmt: skip
    many = {**campaign, "matrix": {f"stages.a.env.V{number}": ten for number in range(3)}, "repetitions": 10_000}
    found = problems_of([json.dumps(each) for each in (members, campaign, many)], tmp_path)
    messages = [[message for _, _, message in each] for each in found]
    assert "1000000000000 members: an ensemble has at most 10000" in messages[0]
    assert "1000000000000 combinations: a campaign has at most 100000 trials" in messages[1]
    assert "10001000 runs of 1000 trials: a campaign has at most 1000000" in messages[2]
