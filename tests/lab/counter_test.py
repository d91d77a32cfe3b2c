"""What a push says it sent, against the counters of the devices at both ends of a link."""
import os
import tempfile
import unittest

import lab
import one_tensor

MIB = 1 << 20
MESSAGES, PUSHES, QUEUES = 16, 4, 2
MTU = 4096
# Ethernet, IPv4, UDP, base transport header and checksum: of every packet.
HEADERS = 14 + 20 + 8 + 12 + 4
FIRST = 16     # an RDMA header with address and key, in the first packet of a message
IMMEDIATE = 4  # in the message that tells of the end of a push
ACKNOWLEDGE = HEADERS + 4


class Counters(unittest.TestCase):
    def test_devices_saw_what_the_push_says_it_sent(self):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "a.h5")
            scene = one_tensor.write(one_tensor.runs(MESSAGES, MIB), folder)
            common = [*scene, "--transport", lab.TRANSPORT, "--verify", "none", "--timeout", "60s",
                      "--iterations", PUSHES - 1, "--warmup", 1, "--qps", QUEUES, "--chunk", "1MiB",
                      "--output", output, "--json"]

            def read():
                return {"trainer's tx_bytes": lab.netdev_counter("roce0", "tx_bytes"),
                        "rollout's rx_bytes": lab.netdev_counter("peer0", "rx_bytes"),
                        "rollout's tx_bytes": lab.netdev_counter("peer0", "tx_bytes"),
                        "trainer's sent_pkts": lab.rdma_counter("rxe0", "sent_pkts"),
                        "rollout's rcvd_pkts": lab.rdma_counter("rxp0", "rcvd_pkts")}

            before = read()
            result = lab.run(lab.groups({"trainer": (1, [*common, "--nic", "rxe0"]),
                                         "rollout": (1, [*common, "--nic", "rxp0"])}))
            self.assertEqual(result.code, 0, result)
            seen = {name: value - before[name] for name, value in read().items()}
            said = result.json()["cases"][0]["bytes"] * PUSHES
        self.assertEqual(said, MESSAGES * MIB * PUSHES)
        notices = QUEUES * PUSHES
        packets = said // MTU + notices
        sent = said + packets * HEADERS + (MESSAGES * PUSHES + notices) * FIRST + notices * IMMEDIATE
        print(f"said {said} bytes; computed {packets} packets, {sent} bytes; seen {seen}")
        # Above: packets sent again where emulation was late, and address resolution.
        for name, computed in (("trainer's tx_bytes", sent), ("rollout's rx_bytes", sent),
                               ("trainer's sent_pkts", packets), ("rollout's rcvd_pkts", packets)):
            with self.subTest(name):
                self.assertGreaterEqual(seen[name], computed)
                self.assertLess(seen[name], computed * 1.01)
        with self.subTest("the other way go acknowledgements"):
            self.assertGreaterEqual(seen["rollout's tx_bytes"], ACKNOWLEDGE * notices)
            self.assertLess(seen["rollout's tx_bytes"], ACKNOWLEDGE * packets)


if __name__ == "__main__":
    unittest.main(verbosity=2)
