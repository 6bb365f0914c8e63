"""What the user wrote: the pipeline file, its overlays, components, engines and sites, as checked data."""
