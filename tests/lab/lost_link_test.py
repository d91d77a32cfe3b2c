"""Links and ranks that are lost in mid-push. Trainers and rollouts sit on the two ends of a link."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

import lab
import launch
import one_tensor

MIB = 1 << 20
# A push takes about a second: what happens once it has begun to send happens before its end.
PUSH_BYTES = 64 * MIB
MID_PUSH = 8 * MIB
TIMEOUT = 15  # seconds: of a phase of the push
SLACK = 20    # seconds: to end all processes, under emulation
LINK_UP = "ip link set peer0 up; softroce-routes"
RANK = r"rank {} \(host \S+\)"


class LostLink(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(self.folder, "a.h5")

    def sides(self, *arguments, rollouts=1, total_bytes=PUSH_BYTES, **different):
        """different: arguments of one role."""
        scene = one_tensor.write(one_tensor.columns(total_bytes, 4096, 1, rollouts), self.folder)
        common = [*scene, "--transport", lab.TRANSPORT, "--verify", "full", "--warmup", 0,
                  "--timeout", f"{TIMEOUT}s", "--output", self.output, *arguments]
        return {"trainer": (1, [*common, "--nic", "rxe0", *different.get("trainer", ())]),
                "rollout": (rollouts, [*common, "--nic", "rxp0", *different.get("rollout", ())])}

    def start(self, line):
        job = lab.Job(line)
        self.addCleanup(job.kill)
        job.wait_for_traffic("roce0", MID_PUSH)
        return job

    def finish(self, job):
        begin = time.monotonic()
        result = job.result()
        print("\n".join(result.sentences))
        self.assertLess(time.monotonic() - begin, TIMEOUT + SLACK, result)
        return result

    def shown(self):
        """The summary of the file that is left, finished or not."""
        for path in (self.output, self.output + ".part"):
            if os.path.exists(path):
                shown = launch.run("show", "--json", "--allow-partial", path)
                self.assertEqual(shown.code, 0, shown)
                return shown.json()
        self.fail("there is no results file")

    def assert_peer_is_named(self, result, rank):
        self.assertRegex("\n".join(result.sentences), RANK.format(rank), result)

    def assert_ended_by_error(self, result):
        self.assertNotIn(result.code, (0, 6), result)
        self.assertTrue(result.sentences, result)
        self.assertNotEqual(self.shown()["status"], "complete")

    def lose(self, percent, *netdevs):
        for netdev in netdevs:
            lab.shell(f"tc qdisc add dev {netdev} root netem loss {percent}%")
            self.addCleanup(subprocess.run, ["tc", "qdisc", "del", "dev", netdev, "root"],
                            stderr=subprocess.DEVNULL)

    def assert_all_arrived(self, result, pushes):
        self.assertEqual(result.code, 0, result)
        case, = self.shown()["cases"]
        self.assertEqual((case["iterations"], case["wrong"]), (pushes, 0))

    def test_far_link_down_in_mid_push_is_an_error_that_names_port_and_peer(self):
        # Both ends lose the carrier: the port's own event is what is seen first.
        job = self.start(lab.groups(self.sides("--iterations", 100)))
        self.addCleanup(lab.shell, LINK_UP)
        lab.shell("ip link set peer0 down")
        result = self.finish(job)
        self.assert_ended_by_error(result)
        self.assertRegex("\n".join(result.sentences),
                         f"rx[ep]0.*not done with {RANK.format('[01]')}", result)

    def test_path_lost_in_mid_push_is_an_error_that_names_the_peer(self):
        # As behind a switch: the ports stay up, and no packet arrives.
        job = self.start(lab.groups(self.sides("--iterations", 100)))
        self.lose(100, "roce0", "peer0")
        result = self.finish(job)
        self.assert_ended_by_error(result)
        self.assert_peer_is_named(result, 1)
        self.assertRegex("\n".join(result.sentences), "retry", result)

    def test_path_that_comes_back_in_200_ms_loses_nothing(self):
        job = self.start(lab.groups(self.sides("--iterations", 3)))
        self.lose(100, "roce0", "peer0")
        time.sleep(0.2)
        for netdev in ("roce0", "peer0"):
            lab.shell(f"tc qdisc del dev {netdev} root")
        self.assert_all_arrived(job.result(), 3)

    def test_link_that_comes_back_in_200_ms_loses_nothing_or_is_an_error(self):
        # The event of a port that is in use may end the run.
        job = self.start(lab.groups(self.sides("--iterations", 3)))
        lab.shell("ip link set peer0 down; sleep 0.2; " + LINK_UP)
        result = job.result()
        if result.code == 0:
            self.assert_all_arrived(result, 3)
        else:
            self.assert_ended_by_error(result)
            self.assertRegex("\n".join(result.sentences), "rx[ep]0", result)

    def test_loss_of_5_percent_never_corrupts(self):
        self.lose(5, "roce0", "peer0")
        result = lab.run(lab.groups(self.sides("--iterations", 3, "--retry-timeout", 16,
                                               total_bytes=4 * MIB)))
        if result.code == 0:
            self.assert_all_arrived(result, 3)
        else:
            self.assert_ended_by_error(result)
            self.assert_peer_is_named(result, "[01]")

    def survivors_of(self, victim):
        """mpirun lets the others live: each has to notice by itself."""
        line = lab.groups(self.sides("--iterations", 100, rollouts=2), wrapper=lab.TELL)
        job = self.start(["--enable-recovery", *line])
        os.kill(job.pid(victim), signal.SIGKILL)
        result = self.finish(job)
        self.assert_peer_is_named(result, victim)
        told = lab.codes_told(result)
        # The launcher may be gone before the last shell has spoken.
        self.assertTrue(set(told) - {victim}, result)
        self.assertNotIn(0, told.values(), result)
        self.assertNotEqual(self.shown()["status"], "complete")

    def test_killed_rollout_is_noticed_by_the_trainer(self):
        self.survivors_of(2)

    def test_killed_trainer_is_noticed_by_the_rollouts(self):
        self.survivors_of(0)

    def test_unequal_queue_pairs_are_refused(self):
        result = lab.run(lab.groups(self.sides(trainer=("--qps", 2), rollout=("--qps", 3))))
        self.assertEqual(result.code, 2, result)
        said = "\n".join(result.sentences)
        self.assertIn("--qps", said)
        for text in (r"\b2\b", r"\b3\b"):
            self.assertRegex(said, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
