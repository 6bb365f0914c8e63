"""The trials of a campaign with their plans, keys, and advice on them; starts nothing."""
