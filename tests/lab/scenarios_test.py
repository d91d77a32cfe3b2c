"""The end-to-end pushes of tests/end_to_end over verbs, in every way two ranks can be connected.

WEIGHTLIFT_LAB_ALL=1: every scenario in each of them, not every fourth one over one device and a few
over the others.
"""
import os
import tempfile
import unittest

import lab
import launch
import push_test
import strategy_test
from scenarios import SCENARIOS

# Sides that are cut otherwise, experts, stages of odd sizes: in few ranks.
FEW = [scenario for scenario in SCENARIOS if scenario.name == "first and last stage of their own size"]
assert len(FEW) == 1
ALL = os.environ.get("WEIGHTLIFT_LAB_ALL") == "1"


class OverVerbs:
    transports = (lab.TRANSPORT,)
    devices = ("--nic", "rxe0")

    def launch(self, trainers, rollouts, *arguments):
        return launch.mpirun(trainers + rollouts, "push", *arguments, "--timeout", "60s", *self.devices,
                             deadline=lab.SLOW)


class OnTwoHosts:
    """Two virtual machines: what a rank knows of its host, its devices and its memory is its own."""

    def setUp(self):
        # A folder that both machines see.
        self.folder = tempfile.TemporaryDirectory(dir="/run/softroce")
        self.addCleanup(self.folder.cleanup)

    def launch(self, trainers, rollouts, *arguments):
        arguments = [*arguments, "--timeout", "60s", *self.devices]
        hosts = {"trainer": f"node0:{trainers}", "rollout": f"node1:{rollouts}"}
        return lab.run(lab.groups({"trainer": (trainers, arguments), "rollout": (rollouts, arguments)},
                                  launcher_flags={role: ("--host", hosts[role]) for role in hosts}))


class OneDevice(OverVerbs, push_test.Push):
    # Each takes ten seconds there, most of it in MPI_Init.
    scenarios = SCENARIOS if ALL else SCENARIOS[::4]


class Few(OverVerbs, push_test.Push):
    """Where the connections differ and nothing else does."""
    scenarios = SCENARIOS if ALL else FEW
    test_tiny_deepseek_reaches_16_rollouts_from_8_trainers = None
    test_results_open_in_h5py = None


class Striped(Few):
    devices = ("--nic", "rxe0,rxe1")


class ShortQueues(Few):
    devices = ("--nic", "rxe0", "--qps", "3", "--chunk", "4KiB", "--depth", "8")


class Ipv6(Few):
    def setUp(self):
        super().setUp()
        self.devices = ("--nic", "rxe0", "--gid-index", lab.gid_index("rxe0", "ipv6"))


class Ends(Few):
    """Trainers and rollouts on the two ends of a link: what is sent has to cross it."""
    nics = {"trainer": ("rxe0",), "rollout": ("rxp0",)}
    family = "ipv4"
    crossed = ("roce0",)

    def launch(self, trainers, rollouts, *arguments):
        sides = {}
        for role, ranks in (("trainer", trainers), ("rollout", rollouts)):
            devices = self.nics[role]
            sides[role] = (ranks, [*arguments, "--timeout", "60s", "--nic", ",".join(devices),
                                   "--gid-index", lab.gid_index(devices[0], self.family)])
        before = [lab.netdev_counter(netdev, "tx_bytes") for netdev in self.crossed]
        result = lab.run(lab.groups(sides))
        for netdev, sent in zip(self.crossed, before):
            self.assertGreater(lab.netdev_counter(netdev, "tx_bytes"), sent + 1000, netdev)
        return result


class EndsIpv6(Ends):
    family = "ipv6"


class EndsStriped(Ends):
    nics = {"trainer": ("rxe0", "rxe1"), "rollout": ("rxp0", "rxp1")}
    crossed = ("roce0", "roce1")


class TwoHosts(OnTwoHosts, Few):
    def check(self, shown, summary, plan, tensors):
        # `plan` knows no rails; the same bytes may come from other holders.
        case, = summary["cases"]
        super().check(shown, summary, {**plan, "digest": case["plan_digest"]}, tensors)


# Engines whose ranks pass on to each other what only one of them was sent, and stages.
RELAYED = [scenario for scenario in SCENARIOS if scenario.name in
           ("several engines", "first and last stage of their own size")]
assert len(RELAYED) == 2


class OneDeviceStrategies(OverVerbs, strategy_test.Strategies):
    """Every rank may write to every other, and to itself."""
    turns = None
    scenarios = SCENARIOS if ALL else RELAYED[-1:]
    # Not of the transport; and 17 ranks take long.
    test_staging_is_announced_and_has_to_do = None
    if not ALL:
        test_egress_of_a_relay_is_one_engine_s_whatever_their_number = None


class TwoHostsStrategies(OnTwoHosts, OneDeviceStrategies):
    """What comes to one rank over the link goes on to others through memory: two transports in one push."""
    transports = ("auto",)
    scenarios = RELAYED if ALL else RELAYED[-1:]
    strategies = strategy_test.STEPPED if ALL else ("relay",)

    def check_plan(self, *_):
        """Without a cluster `plan` has one node."""

    test_egress_of_a_relay_is_one_engine_s_whatever_their_number = None


class TwoHostsStriped(TwoHosts):
    # Each machine has one processor: what is like one device there is not done again.
    scenarios = FEW
    devices = ("--nic", "rxe0,rxe1")
    test_layout_files_of_a_made_up_architecture_are_enough = None


if __name__ == "__main__":
    unittest.main(verbosity=2)
