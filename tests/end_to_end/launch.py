"""Runs the program under test, alone or under mpirun, with a deadline on every run.

WEIGHTLIFT is the path of the program; MPIEXEC the launcher with its flags, absent in builds
without MPI.
"""
import json
import os
import shlex
import subprocess
import tempfile
import unittest
from dataclasses import dataclass

if "WEIGHTLIFT" not in os.environ:
    raise SystemExit("WEIGHTLIFT must be the path of the built program")
PROGRAM = os.path.abspath(os.environ["WEIGHTLIFT"])
MPIEXEC = shlex.split(os.environ.get("MPIEXEC", ""))

needs_mpi = unittest.skipUnless(MPIEXEC, "MPIEXEC is not set: this build has no MPI")


def launcher_is_open_mpi():
    if not MPIEXEC:
        return False
    version = subprocess.run([MPIEXEC[0], "--version"], capture_output=True, text=True, timeout=60)
    return "Open MPI" in version.stdout + version.stderr


class InFolder(unittest.TestCase):
    """Launches pushes, and keeps what they write in a folder of the test's own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def launch(self, trainers, rollouts, *arguments):
        return mpirun(trainers + rollouts, "push", *arguments, "--timeout", "30s")


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def sentences(self):
        """What weightlift itself says on stderr; launchers add notices of their own."""
        return [line for line in self.err.splitlines() if line.startswith("weightlift: ")]

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def environment(changes=None):
    """This process's environment without what a launcher may have left in it.

    OMPI_MCA_… stays: it is how a machine says what Open MPI needs there.
    """
    launchers = ("OMPI_", "PMI", "PMIX_", "SLURM_")
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(launchers) or k.startswith("OMPI_MCA_")}
    clean.update(changes or {})
    return clean


def _finish(command, env, cwd, deadline):
    done = subprocess.run(command, capture_output=True, text=True, env=environment(env), cwd=cwd,
                          timeout=deadline)
    return Result(done.returncode, done.stdout, done.stderr)


def run(*arguments, env=None, cwd=None, deadline=60):
    return _finish([PROGRAM, *map(str, arguments)], env, cwd, deadline)


def command(ranks, *arguments, launcher_flags=(), wrapper=()):
    """wrapper: a program that each rank starts with, and that then runs its arguments."""
    return [*MPIEXEC, *launcher_flags, "-n", str(ranks), *wrapper, PROGRAM, *map(str, arguments)]


def mpirun(ranks, *arguments, launcher_flags=(), wrapper=(), env=None, cwd=None, deadline=60):
    line = command(ranks, *arguments, launcher_flags=launcher_flags, wrapper=wrapper)
    return _finish(line, env, cwd, deadline)


def mpirun_mixed(*groups, env=None, cwd=None, deadline=60):
    """mpirun's colon form: each group is (ranks, arguments)."""
    line = list(MPIEXEC)
    for number, (ranks, arguments) in enumerate(groups):
        line += ([":"] if number else []) + ["-n", str(ranks), PROGRAM, *map(str, arguments)]
    return _finish(line, env, cwd, deadline)


def ranks_of(mpirun_pid):
    """Processes of the job by rank, for as long as they live."""
    ranks = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent != mpirun_pid:
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            ranks[int(variables[b"OMPI_COMM_WORLD_RANK"])] = int(pid)
        except (FileNotFoundError, ProcessLookupError, KeyError):
            continue  # ended in between, or is not a rank yet
    return ranks
