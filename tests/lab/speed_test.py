"""Pushes against ib_write_bw over the same device, in turn, with the same queues and messages.

Rates of an emulated device mean nothing by themselves; their ratio says what the program adds.
WEIGHTLIFT_LAB_OUT: a folder for speed.json and the results files of the pushes.
"""
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import unittest

import lab
import one_tensor

MIB = 1 << 20
ALL = os.environ.get("WEIGHTLIFT_LAB_ALL") == "1"
DEVICE, ADDRESS = "rxe0", "10.77.0.1"
PAIRS = 5 if ALL else 3
STRIDED_PAIRS = PAIRS if ALL else 2
PUSH_BYTES = 64 * MIB  # more than caches hold
MESSAGE = MIB
QUEUES, DEPTH = 2, 64
MTU = 4096
SAME = ["--nic", DEVICE, "--qps", QUEUES, "--depth", DEPTH, "--chunk", "1MiB"]

# name: layouts, least ratio to ib_write_bw in CI, and what is aimed at. One process writes to one, as
# with ib_write_bw. Whatever else runs on the machine costs the push more: its receiver works, too.
PLANS = {
    "contiguous, 1 MiB": (one_tensor.runs(PUSH_BYTES // MESSAGE, MESSAGE), 0.85, 0.95),
    "strided source, 4 KiB": (one_tensor.columns_of_one(PUSH_BYTES, 4096, 1, 2), 0.75, 0.8),
    "strided destination, 4 KiB": (one_tensor.columns_of_one(PUSH_BYTES, 4096, 2, 1), 0.75, 0.8),
    "strided source, 512 B": (one_tensor.columns_of_one(PUSH_BYTES, 512, 1, 2), 0.75, 0.8),
    "strided destination, 512 B": (one_tensor.columns_of_one(PUSH_BYTES, 512, 2, 1), 0.75, 0.8),
}


def write_bw():
    """Bytes per second of ib_write_bw between two processes."""
    line = ["ib_write_bw", "-d", DEVICE, "-x", str(lab.gid_index(DEVICE, "ipv4")), "-F", "-q",
            str(QUEUES), "-t", str(DEPTH), "-m", str(MTU), "-s", str(MESSAGE),
            "-n", str(PUSH_BYTES // MESSAGE * 2 // QUEUES)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        for _ in range(100):
            client = subprocess.run([*line, ADDRESS], capture_output=True, text=True, timeout=120)
            if client.returncode == 0 or "Couldn't connect" not in client.stderr:
                break
            time.sleep(0.1)  # the server does not listen yet
        if client.returncode != 0:
            server.kill()
            raise AssertionError(f"ib_write_bw: {client.stdout}{client.stderr}\n{server.stdout.read()}")
    # bytes, iterations, peak, average in MiB/s, messages
    row = re.search(rf"^ *{MESSAGE} +\d+ +[\d.]+ +([\d.]+) ", client.stdout, re.M)
    return float(row.group(1)) * MIB


class Speed(unittest.TestCase):
    def push(self, name, folder, round_number):
        layouts = PLANS[name][0]
        output = os.path.join(self.results, f"{re.sub('[^a-z0-9]+', '-', name.lower())}-{round_number}.h5")
        result = lab.run(["-n", "2", lab.launch.PROGRAM, "push",
                          *one_tensor.write(layouts, folder), "--transport", lab.TRANSPORT,
                          *map(str, SAME), "--rows", "auto",
                          "--verify", "none" if round_number else "fingerprint",
                          "--iterations", "3", "--warmup", "1", "--timeout", "60s",
                          "--output", output, "--json"])
        self.assertEqual(result.code, 0, result)
        case, = result.json()["cases"]
        self.assertEqual((case["bytes"], case["wrong"] or 0), (PUSH_BYTES, 0))
        return case["bytes"] / statistics.median(case["time_ns"]) * 1e9

    def test_push_keeps_up_with_ib_write_bw(self):
        rates = {"ib_write_bw": [], **{name: [] for name in PLANS}}
        with tempfile.TemporaryDirectory() as folder:
            self.results = os.environ.get("WEIGHTLIFT_LAB_OUT") or folder
            os.makedirs(self.results, exist_ok=True)
            for number in range(PAIRS):
                rates["ib_write_bw"].append(write_bw())
                for name in PLANS:
                    if number < STRIDED_PAIRS or not name.startswith("strided"):
                        rates[name].append(self.push(name, folder, number))
            reference = statistics.median(rates["ib_write_bw"])
            report = {"device": "Soft-RoCE, emulated", "message_bytes": MESSAGE, "queues": QUEUES,
                      "depth": DEPTH, "mtu": MTU, "push_bytes": PUSH_BYTES, "cases": {}}
            print(f"{'case':30} {'MB/s: median':>14} {'least':>8} {'most':>8} {'ratio':>7}")
            for name, seen in rates.items():
                ratio = statistics.median(seen) / reference
                report["cases"][name] = {"bytes_per_s": seen, "ratio_of_medians": ratio}
                print(f"{name:30} {statistics.median(seen) / 1e6:14.1f} {min(seen) / 1e6:8.1f} "
                      f"{max(seen) / 1e6:8.1f} {ratio:7.3f}")
            with open(os.path.join(self.results, "speed.json"), "w", encoding="utf-8") as file:
                json.dump(report, file, indent=1)
        for name, (*_, least, target) in PLANS.items():
            with self.subTest(name):
                ratio = report["cases"][name]["ratio_of_medians"]
                self.assertGreaterEqual(ratio, target if ALL else least)


if __name__ == "__main__":
    unittest.main(verbosity=2)
