"""What must not be written: a push that was given up, memory whose key is wrong, memory beyond a region."""
import os
import tempfile
import unittest

import lab
import launch
import one_tensor

MIB = 1 << 20
BUILD = os.path.dirname(launch.PROGRAM)


class Fence(unittest.TestCase):
    def test_push_that_was_given_up_cannot_reach_the_next_version(self):
        program = os.path.join(BUILD, "tests", "conformance", "transport_abandoned_push")
        result = lab.run(["-n", "3", program, lab.TRANSPORT])
        self.assertEqual(result.code, 0, result)
        self.assertIn("version 2 is whole", result.out)
        self.assertRegex(result.out, "trainer 0, going on: .*write of .* to rank 2 ")

    def push_with(self, fault):
        with tempfile.TemporaryDirectory() as folder:
            scene = one_tensor.write(one_tensor.columns(4 * MIB, 4096, 1, 2), folder)
            return lab.run(["-n", "3", launch.PROGRAM, "push", *scene, "--transport", lab.TRANSPORT, "--rows", "gather",
                            "--iterations", "1", "--warmup", "0", "--verify", "full", "--nic", "rxe0",
                            "--timeout", "40s", "--output", os.path.join(folder, "a.h5"), "--inject", fault])

    def test_wrong_key_is_an_error_at_once(self):
        result = self.push_with("key=2")
        self.assertEqual(result.code, 4, result)
        self.assertRegex(result.err, r"(write of .* to rank 2 .*: remote access error|access violation.*with rank 0)")

    def test_region_that_is_too_short_is_an_error_at_once(self):
        result = self.push_with("short=2")
        self.assertEqual(result.code, 4, result)
        self.assertRegex(result.err, r"(write of .* to rank 2 .*: remote access error|access violation.*with rank 0)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
