"""What jobs/mpirun.sh has, for scripts in Python."""
import os
import shlex
import subprocess

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def launcher(build):
    script = f'source jobs/mpirun.sh {shlex.quote(build)}; printf "%s\\n" "${{mpirun[@]}}"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
