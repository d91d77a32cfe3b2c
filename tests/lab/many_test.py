"""As many queue pairs and memory regions as a rank of a large job has."""
import os
import tempfile
import unittest

import lab
import launch
import one_tensor

MIB = 1 << 20
ROLLOUTS, QUEUES = 4, 64      # 256 queue pairs on the trainer
PUSH_BYTES, REGION = 40 * MIB, 4096  # 10,240 regions there


class Many(unittest.TestCase):
    def test_256_queue_pairs_and_10_000_regions(self):
        with tempfile.TemporaryDirectory() as folder:
            scene = one_tensor.write(one_tensor.columns(PUSH_BYTES, 4096, 1, ROLLOUTS), folder)
            result = lab.run(["-n", str(1 + ROLLOUTS), launch.PROGRAM, "push", *scene,
                              "--transport", lab.TRANSPORT, "--nic", "rxe0", "--qps", str(QUEUES),
                              "--region-bytes", str(REGION), "--rows", "gather", "--depth", "32",
                              "--iterations", "2", "--warmup", "0", "--verify", "full",
                              "--timeout", "120s", "--output", os.path.join(folder, "a.h5"), "--json"])
            self.assertEqual(result.code, 0, result)
            case, = result.json()["cases"]
            self.assertEqual((case["bytes"], case["wrong"]), (PUSH_BYTES, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
