"""JUnit's XML, which CI systems show: a test case per trial, metric or expectation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree


class JUnitCase(NamedTuple):
    """A test case; `fault` is why it failed, empty where it did not, `skipped` why it has no result."""

    name: str
    time_s: float = 0.0
    fault: str = ""
    skipped: str = ""


def to_junit(suite: str, cases: Iterable[JUnitCase]) -> bytes:
    """The XML text."""
    listed = list(cases)
    faults, skipped = sum(bool(each.fault) for each in listed), sum(bool(each.skipped) for each in listed)
    counts = {"tests": str(len(listed)), "failures": str(faults), "errors": "0", "skipped": str(skipped)}
    time = f"{sum(each.time_s for each in listed):.3f}"
    root = ElementTree.Element("testsuites", {"name": suite, **counts, "time": time})
    part = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts, "time": time})
    for each in listed:
        attributes = {"classname": suite, "name": each.name, "time": f"{each.time_s:.3f}"}
        case = ElementTree.SubElement(part, "testcase", attributes)
        if each.fault:
            message = each.fault.split("\n")[0]
            ElementTree.SubElement(case, "failure", {"message": message}).text = each.fault
        elif each.skipped:
            ElementTree.SubElement(case, "skipped", {"message": each.skipped})
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
