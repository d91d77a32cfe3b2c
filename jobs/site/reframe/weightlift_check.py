"""A push as a ReFrame check: every byte right, and the bandwidth within bounds from both sides.

    reframe -C jobs/site/reframe/settings.py -c jobs/site/reframe/weightlift_check.py --run \
            --setvar weightlift=$PWD/build/release/weightlift

A site sets its own references: {"mysystem:partition": {"algbw": (180, -0.05, 0.05, "GB/s")}}.
"""
import json
import os

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_before, sanity_function, variable


@rfm.simple_test
class WeightliftPush(rfm.RunOnlyRegressionTest):
    descr = "weight update from trainers to rollouts"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 16
    time_limit = "10m"
    weightlift = variable(str, value="weightlift")
    push_flags = variable(
        str, value="--model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8")
    mpi = variable(str, value="pmix")

    @run_before("run")
    def launch(self):
        self.executable = self.weightlift
        self.executable_opts = ["push", *self.push_flags.split(), "--json", "--output", "push.h5"]
        self.job.launcher.options = [f"--mpi={self.mpi}", "--kill-on-bad-exit=1"]

    def case(self):
        with open(os.path.join(self.stagedir, str(self.stdout)), encoding="utf-8") as file:
            return json.load(file)["cases"][0]

    @sanity_function
    def every_byte_is_right(self):
        case = self.case()
        return sn.all([sn.assert_eq(case["wrong"], 0, "wrong data in {0} pushes"),
                       sn.assert_gt(case["iterations"], 0, "no push was measured")])

    @performance_function("GB/s")
    def algbw(self):
        return self.case()["algbw_bytes_per_s"] / 1e9

    @performance_function("ms")
    def p50(self):
        return self.case()["p50_ns"] / 1e6
