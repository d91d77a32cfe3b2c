"""What the tests inside the virtual machine share: its devices, and pushes over them.

They run there by tests/lab/run.sh, with the modules of tests/end_to_end in reach.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))

import launch

if "SOFTROCE_GUEST" not in os.environ:
    raise SystemExit("to be run in a virtual machine: tests/lab/run.sh")
TRANSPORT = "verbs"
# Emulation is slow: a push of 24 ranks takes half a minute, most of it in MPI_Init.
SLOW = 240
# With --enable-recovery mpirun returns 0 whatever its ranks do, so each rank's shell tells.
TELL = ["sh", "-c", '"$@"; code=$?; echo "rank $OMPI_COMM_WORLD_RANK left with $code" >&2', "sh"]


def read(*path):
    with open(os.path.join(*path), encoding="ascii") as file:
        return file.read().strip()


def gid_index(device, family):
    """Of the RoCEv2 address of a family, "ipv4" or "ipv6", the global one."""
    port = f"/sys/class/infiniband/{device}/ports/1"
    for index in sorted(map(int, os.listdir(port + "/gids"))):
        gid = read(port, "gids", str(index))
        if gid == ":".join(["0000"] * 8) or gid.startswith("fe80:"):
            continue
        is_ipv4 = gid.startswith("0000:0000:0000:0000:0000:ffff:")
        kind = read(port, "gid_attrs/types", str(index))
        if kind == "RoCE v2" and is_ipv4 == (family == "ipv4"):
            return index
    raise LookupError(f"{device} has no RoCEv2 GID of a global {family} address")


def netdev_counter(netdev, name):
    return int(read("/sys/class/net", netdev, "statistics", name))


def rdma_counter(device, name):
    return int(read("/sys/class/infiniband", device, "ports/1/hw_counters", name))


def groups(sides, wrapper=(), launcher_flags=None):
    """mpirun's arguments in its colon form: sides is {role: (ranks, arguments of push)}."""
    line = []
    for role, (ranks, arguments) in sides.items():
        line += ([":"] if line else []) + [*(launcher_flags or {}).get(role, ()), "-n", str(ranks),
                                           *wrapper, launch.PROGRAM, "push", "--role", role,
                                           *map(str, arguments)]
    return line


def run(line, deadline=SLOW):
    """Runs mpirun with these arguments."""
    done = subprocess.run([*launch.MPIEXEC, *line], capture_output=True, text=True,
                          env=launch.environment(), timeout=deadline)
    return launch.Result(done.returncode, done.stdout, done.stderr)


def shell(line):
    subprocess.run(line, shell=True, check=True)


class Job:
    """A push that runs while the test does something to it."""

    def __init__(self, line):
        self.begin = time.monotonic()
        self.process = subprocess.Popen([*launch.MPIEXEC, *line], env=launch.environment(), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for_traffic(self, netdev, moved, deadline=60):
        """Until a push is going on: that many bytes have left since now."""
        base, end = netdev_counter(netdev, "tx_bytes"), time.monotonic() + deadline
        while netdev_counter(netdev, "tx_bytes") < base + moved:
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise AssertionError(f"{moved} bytes did not leave {netdev}:\n{self.result()}")
            time.sleep(0.01)

    def pid(self, rank):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                program = os.path.realpath(f"/proc/{pid}/exe")
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue  # ended in between
            if (program == os.path.realpath(launch.PROGRAM) and
                    f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables):
                return int(pid)
        raise LookupError(f"no rank {rank} runs")

    def result(self, deadline=SLOW):
        out, err = self.process.communicate(timeout=deadline)
        return launch.Result(self.process.returncode, out, err)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)


def codes_told(result):
    return {int(rank): int(code) for rank, code in re.findall(r"rank (\d+) left with (\d+)", result.err)}
