"""How a submission fails: whether a job may be there all the same."""

from __future__ import annotations

from workflow.errors import RunError


class SubmissionRefusedError(Exception):
    """The submit command has failed; the text is what it printed. It may have been accepted all the same."""


class NotSubmittedError(RunError):
    """The submit command was not executed: no job of that name exists."""
