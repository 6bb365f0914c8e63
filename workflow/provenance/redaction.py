"""Removes what may be a secret from texts that are kept. Pure: the environment is an argument."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

REMOVED = "<removed>"
# Words of a name, in any case: GITHUB_TOKEN, apiKey, db-password.
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|PASSCODE|PWD|CREDENTIAL|CRED$|AUTH|COOKIE|JWT|KEY|PRIVATE|SIGNATURE|CERT|BEARER",
    re.IGNORECASE,
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
# A shorter value (`1`, `yes`) is found in texts that have nothing to do with it.
_SHORTEST_VALUE = 8

# What may change what a run does: of libraries, launchers, schedulers, Python and the loader.
_KEPT_PREFIXES = (
    "ADIOS2_", "SST_", "Sst", "CM", "OPENPMD_", "HDF5_", "WF_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "BLIS_",
    "NUMEXPR_", "MPI_", "MPICH_", "MPIR_", "OMPI_", "PRTE_", "PMIX_", "PMI_", "HYDRA_", "I_MPI_", "MV2_", "PALS_",
    "UCX_", "UCC_", "FI_", "IBV_", "PSM2_", "NCCL_", "RCCL_", "CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ROCM_",
    "GPU_", "ZE_", "ZES_", "SYCL_", "ONEAPI_", "SLURM_", "SBATCH_", "SRUN_", "PBS_", "LSB_", "LSF_", "FLUX_", "COBALT_",
    "CRAY_", "PE_", "LMOD_", "MODULE", "CONDA_", "SPACK_", "MALLOC_", "PYTHON", "LC_",
)  # fmt: skip
_KEPT_NAMES = {
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "GLIBC_TUNABLES", "LANG", "TZ", "TMPDIR", "SCRATCH",
    "VIRTUAL_ENV", "LOADEDMODULES", "HOSTTYPE", "MACHTYPE",
}  # fmt: skip


def is_secret_name(name: str) -> bool:
    """Whether a variable, key or option of that name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """Value → the variable of the environment that holds it, of those that may be secrets.

    Short values, and paths of files that there are, are none.
    """
    found = {}
    for name, value in environ.items():
        if is_secret_name(name):
            if len(value) >= _SHORTEST_VALUE and not _is_place(value):
                found[value] = name
        elif (password := _password(value)) and len(password) >= _SHORTEST_VALUE:
            found[password] = name
    return found


def clean_url(url: str) -> str:
    """A URL without user name, password, query and fragment; anything else, such as `git@host:path`, as it is."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return REMOVED
    if "://" not in url:
        return url
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def clean_text(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the credentials of its URLs, and without these secrets."""
    if "://" in text:
        text = _URL.sub(lambda found: clean_url(found[0]), text)
    for secret in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(secret, REMOVED)
    return text


def clean_words(words: Sequence[str], secrets: Iterable[str] = ()) -> list[str]:
    """A command line without secrets: values of `KEY=VALUE` and `--key VALUE` where the key's name tells, and URLs."""
    cleaned: list[str] = []
    hidden = False
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and is_secret_name(name.rpartition(".")[2]):
            cleaned.append(f"{name}={REMOVED}")
        elif hidden and not word.startswith("-"):
            cleaned.append(REMOVED)
        else:
            cleaned.append(clean_text(word, secrets))
        hidden = word.startswith("-") and not equals and is_secret_name(word)
    return cleaned


def kept_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that may change what a run does, by name; those that may hold a secret without their value."""
    secrets = secret_values(environ)
    kept = {name: value for name, value in environ.items() if name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)}
    return {
        name: REMOVED if is_secret_name(name) else clean_text(value, secrets) for name, value in sorted(kept.items())
    }


def _password(value: str) -> str:
    """The password, or the token, in a URL."""
    if "://" not in value or "@" not in value:
        return ""
    try:
        parts = urlsplit(value)
        return parts.password or parts.username or ""
    except ValueError:
        return ""


def _is_place(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except (OSError, ValueError):
        return False
