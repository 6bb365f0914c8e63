"""Launchers as plans of versions 1 and 2 used them, before plans had the options of their launcher."""

from __future__ import annotations

# Neither was given cores of single ranks: an empty text is no option.
OLD_OPTIONS = {
    "mpiexec": {
        "ranks": "-n {}", "ranks_per_node": "-ppn {}", "hosts": "-hosts {}", "host_file": "-f {}",
        "cores": "", "gpus_per_rank": "-gpus-per-proc {}",
    },
    "srun": {
        "hosts": "--nodelist={}", "host_file": "--nodelist={}", "overlap": "--overlap", "overcommit": "",
        "exact": "--exact", "cores": "",
        "no_binding": "", "memory": "", "gpus_per_node": "", "gpus_per_rank": "--gpus-per-task={}",
        "immediate": "", "kill_on_bad_exit": "", "unbuffered": "",
    },
}  # fmt: skip
