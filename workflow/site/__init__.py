"""Machines: the description of one, and the only place that looks at the machine at hand."""
