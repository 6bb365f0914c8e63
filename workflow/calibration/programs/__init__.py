"""Programs that `wf calibrate` runs as stages."""
