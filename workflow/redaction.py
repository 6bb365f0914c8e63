"""Removes what may be a secret from texts that are kept. Pure: the environment is an argument."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

REMOVED = "<removed>"
# Words of a name, in any case: GITHUB_TOKEN, apiKey, db-password, SSHPASS, GH_PAT; not PASSIVE, BYPASS, PATH.
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|PASSCODE|(?<!BY)(?<!COM)PASS(?![A-Z])|(?:^|[_-])PAT(?![A-Z])|PWD|CREDENTIAL|CRED$"
    r"|AUTH(?!OR(?!I))|COOKIE|JWT|KEY|PRIVATE|SIGNATURE|CERT|BEARER",
    re.IGNORECASE,
)
# What stands before a value inside of a word: `NAME=`, `NAME: `, `"NAME":`, and `--name ` or `--name, ` of a list.
# A name begins where none has begun before, here and in URLs: else a long word is searched from each of its letters.
_BEFORE_VALUE = re.compile(
    r"""(?<![A-Za-z_])(?<![A-Za-z_]-)(?P<name>[A-Za-z_][\w-]*)["']?\s*[=:](?!//)\s*"""
    r"""|(?<![\w-])(?P<option>--?[A-Za-z][\w-]*)["']?(?:\s*,\s*|\s+)["']?(?=[^-\s])"""
)
# `X: {secret: ` of a pipeline: what follows says where the secret is.
_REFERENCE = re.compile(r"(?<!\benv):\s*\{\s*secret:\s*$")
# `user:password@host` without a scheme; not `mailto:me@host`, `image:tag@sha256:…`, `user:$PASSWORD@host`.
_BARE = re.compile(
    r"(?<![\w/.:@-])(?!mailto:)[A-Za-z][\w.-]*:(?P<password>[^\s:@/'\"$<>]+)@(?!sha\d+:)(?=[A-Za-z0-9\[])"
)
_URL = re.compile(r"(?<![A-Za-z])[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
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

    Values of less than 8 characters, and paths of files that there are, are none.
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
    if "@" in text:
        text = _BARE.sub(lambda found: found[0].replace(f":{found['password']}@", f":{REMOVED}@"), text)
    if "://" in text:
        text = _URL.sub(lambda found: clean_url(found[0]), text)
    for secret in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(secret, REMOVED)
    return text


def clean_words(words: Sequence[str], secrets: Iterable[str] = ()) -> list[str]:
    """A command line without these secrets, credentials of URLs, and values whose name or option tells.

    Of a word such as `x.env={API_KEY: …, SIZE: 3}` all is removed from the first such value on: quotes and commas do
    not tell reliably where it ends.
    """
    cleaned: list[str] = []
    hidden = False
    for word in words:
        its = REMOVED if hidden and not word.startswith("-") else _without_values(clean_text(word, secrets))
        cleaned.append(its)
        hidden = word.startswith("-") and "=" not in word and is_secret_name(word)
    return cleaned


def kept_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that may change what a run does, by name; those that may hold a secret without their value."""
    secrets = secret_values(environ)
    kept = {name: value for name, value in environ.items() if name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)}
    return {
        name: REMOVED if is_secret_name(name) else clean_text(value, secrets) for name, value in sorted(kept.items())
    }


def _without_values(word: str) -> str:
    for found in _BEFORE_VALUE.finditer(word):
        if is_secret_name(found["name"] or found["option"]):
            return word[: found.end()] + REMOVED
    return word


def address_password(text: str) -> str:
    """The password in the first address of a text that has one; empty where it is a variable or a placeholder."""
    if bare := _BARE.search(text):
        return bare["password"]
    for found in _URL.finditer(text):
        try:
            password = urlsplit(found[0]).password or ""
        except ValueError:
            continue
        if password and not password.startswith("$"):
            return password
    return ""


def shown_line(line: str) -> str:
    """A line of a source, or an option, as a message may show it: without what may be a secret, by its name."""
    line = clean_text(line)
    for found in _BEFORE_VALUE.finditer(line):
        if not is_secret_name(found["name"] or found["option"]):
            continue
        before, value = line[: found.end()], line[found.end() :]
        is_reference = value[:1] in ("{", "$", "") or before.endswith("not_secret: ") or _REFERENCE.search(before)
        if not is_reference:
            return before + REMOVED
    return line


def shown_option(source: str) -> str:
    """The place of a message: an option without what may be a secret, the name of a file as it is."""
    return shown_line(source) if source.startswith(("--set ", "--with ")) else source


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


# Where the value of a secret variable is read when a stage starts: `file:PATH` or `env:NAME`, as the plan has it.

FILE, VARIABLE = "file:", "env:"


class SecretMissingError(OSError):
    """A secret that cannot be read; `strerror` says which one and what to do, and never holds a value."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.ENOENT, text)
        self.text = text

    def __str__(self) -> str:
        """What is wrong, without the number."""
        return self.text


def read_secrets(sources: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variable → value. Raises SecretMissingError."""
    return {name: _read(name, source, environ) for name, source in sources.items()}


def _read(name: str, source: str, environ: Mapping[str, str]) -> str:
    if source.startswith(VARIABLE):
        variable = source.removeprefix(VARIABLE)
        if (value := environ.get(variable)) is None:
            raise SecretMissingError(f"{name}: the variable {variable} is not set: export it before `wf run`")
        return value
    path = Path(source.removeprefix(FILE))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SecretMissingError(f"{name}: {path} is not UTF-8 text") from None
    except OSError as error:
        raise SecretMissingError(f"{name}: cannot read {path}: {error.strerror}") from None
    # An editor ends the last line; it is no part of the secret.
    value = text.removesuffix("\n").removesuffix("\r")
    if "\0" in value:
        raise SecretMissingError(f"{name}: {path} holds a NUL byte, which no environment variable can")
    return value
