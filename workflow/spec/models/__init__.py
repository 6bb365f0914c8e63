"""The models of what users write: frozen, with unknown keys refused."""
