"""YAML text as a tree of nodes that know their places."""
