"""Commands of schedulers for PATH, whose answers a test writes down: for what a healthy scheduler does not show."""

from tests.support.fake_schedulers.commands import FakeScheduler

__all__ = ["FakeScheduler"]
