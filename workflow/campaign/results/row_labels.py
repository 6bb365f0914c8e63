"""What the rows of a picture are called: the values in which its trials differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.campaign.file.trials import short_names, trial_text, value_text
from workflow.campaign.results.campaign_tables import varied
from workflow.campaign.results.trial_dimensions import Parameters


class RowLabels:
    """`via=sst ranks=1`; where one key varies its value alone, and its name once, as the title of the axis."""

    def __init__(self, points: Sequence[Parameters]) -> None:
        keys = varied(points)
        differing = [key for key in keys if len({value_text(each.get(key)) for each in points}) > 1]
        self._names = short_names(keys)
        self._keys = differing or keys

    @property
    def title(self) -> str:
        """The key, where there is one only."""
        return self._names[self._keys[0]] if len(self._keys) == 1 else ""

    def text(self, parameters: Parameters) -> str:
        """The label of a trial."""
        shown = {key: parameters[key] for key in self._keys if key in parameters}
        return value_text(next(iter(shown.values()))) if self.title and shown else trial_text(shown, self._names)

    def whole(self, parameters: Parameters) -> str:
        """With all its keys, for the data beside the picture."""
        return trial_text(parameters, self._names)
