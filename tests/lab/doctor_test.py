"""doctor over real queue pairs: what it says of devices that are in order, and that are not."""
import os
import tempfile
import unittest

import lab
import launch


def findings(report, check):
    return [f for f in report["findings"] if f["check"] == check]


class Doctor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def doctor(self, *groups):
        """groups: flags of each rank."""
        line = []
        for flags in groups:
            line += ([":"] if line else []) + ["-n", "1", launch.PROGRAM, "doctor", "--json", "--timeout", "60s",
                                               "--transport", lab.TRANSPORT,
                                               "--output", f"{self.folder}/a.h5", *flags]
        result = lab.run(line)
        return result.code, result.json()

    def only(self, report, check):
        finding, = findings(report, check)
        return finding

    def test_writes_over_each_rail(self):
        devices = sorted(os.listdir("/sys/class/infiniband"))
        code, report = self.doctor([], [])
        self.assertEqual((code, report["counts"]["FAIL"]), (0, 0), report)
        self.assertIn(f"over {', '.join(f'{d}:1' for d in devices)} to the next rank, every byte right",
                      self.only(report, "write by verbs")["evidence"])
        self.assertIn("RoCEv2, IPv4-mapped 10.77.0.1 on roce0", self.only(report, "address")["evidence"])
        self.assertEqual(self.only(report, "MTU")["verdict"], "OK")
        self.assertEqual(self.only(report, "/dev/infiniband")["verdict"], "OK")
        self.assertIn("path MTU", self.only(report, "alike")["evidence"])

    def test_writes_across_a_link(self):
        before = lab.netdev_counter("roce0", "tx_bytes")
        code, report = self.doctor(["--nic", "rxe0"], ["--nic", "rxp0"])
        self.assertEqual(code, 0, report)
        told = {f["evidence"]: f["ranks"] for f in findings(report, "write by verbs")}
        self.assertEqual(told, {f"1 MiB over {nic}:1 to the next rank, every byte right": [rank]
                                for rank, nic in enumerate(("rxe0", "rxp0"))})
        self.assertGreater(lab.netdev_counter("roce0", "tx_bytes") - before, 1 << 20)

    def test_small_interface_is_a_warning(self):
        self.addCleanup(lab.shell, "ip link set roce0 mtu 4200")
        lab.shell("ip link set roce0 mtu 1500")
        code, report = self.doctor(["--nic", "rxe0"], ["--nic", "rxe0"])
        self.assertEqual(code, 0, report)
        small = self.only(report, "MTU")
        self.assertEqual((small["verdict"], small["evidence"]), ("WARN", "rxe0:1: path 1024, interface 1500"))

    def test_link_that_is_down_fails(self):
        self.addCleanup(lab.shell, "ip link set roce1 up; softroce-routes")
        lab.shell("ip link set roce1 down")
        code, report = self.doctor(["--nic", "rxe1"], ["--nic", "rxe0"])
        self.assertEqual(code, 3, report)
        down, = [f for f in findings(report, "ports") if f["verdict"] == "FAIL"]
        self.assertEqual((down["evidence"], down["ranks"]), ("rxe1:1: DOWN", [0]))
        self.assertEqual(self.only(report, "write by verbs")["verdict"], "SKIP")

    def test_packets_that_are_lost_fail_the_write(self):
        lab.shell("tc qdisc add dev roce0 root netem loss 100%")
        self.addCleanup(lab.shell, "tc qdisc del dev roce0 root")
        code, report = self.doctor(["--nic", "rxe0"], ["--nic", "rxp0"])
        self.assertEqual(code, 3, report)
        lost = self.only(report, "write by verbs")
        self.assertEqual(lost["verdict"], "FAIL")
        self.assertRegex(lost["evidence"], r"rank \d \(host \S+\)")


if __name__ == "__main__":
    unittest.main()
