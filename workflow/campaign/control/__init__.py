"""Control of a campaign from other processes: show its state, watch it, cancel it, start it detached."""
