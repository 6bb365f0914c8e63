"""What the passes of the plan note beside their results: mistakes, reasons, advice."""

from __future__ import annotations

from dataclasses import dataclass, field

from workflow.plan.problems import Problems


@dataclass(frozen=True)
class Notes:
    """The one collector that every pass gets. It carries no input and no result of another pass."""

    problems: Problems
    reasons: dict[str, str] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def why(self, key: str, reason: str) -> None:
        """Notes why the plan's value at `key` is what it is."""
        self.reasons[key] = reason

    def not_used(self, key: str, via: str, why: str) -> None:
        """Notes a key that belongs to another engine. It may stay: one key switches a stream to a file and back."""
        self.why(key, f"not used with `via: {via}`: {why}")
        self.advise(f"{key} is not used with `via: {via}`: {why}")

    def advise(self, text: str) -> None:
        """Adds a line of advice, once."""
        if text not in self.advice:
            self.advice.append(text)
