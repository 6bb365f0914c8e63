"""Machines: their descriptions, and the only room that inspects this machine."""
