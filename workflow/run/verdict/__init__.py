"""Why a run stalls, fails or succeeds. Pure functions of the run state."""
