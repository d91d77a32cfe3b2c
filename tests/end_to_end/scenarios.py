"""Pushes worth checking: each row has something that the others do not."""
from dataclasses import dataclass

import models


@dataclass(frozen=True)
class Scenario:
    name: str
    config: dict
    trainer: dict
    rollouts: tuple
    mtp: bool = False

    def arguments(self, model_path):
        text = ["--model", model_path, "--trainer", keys_text(self.trainer)]
        for group in self.rollouts:
            text += ["--rollout", keys_text(group)]
        return text + (["--mtp"] if self.mtp else [])


def keys_text(keys):
    return ",".join(f"{key}={value}" for key, value in keys.items())


SCENARIOS = [
    Scenario("tp, whole to whole", models.DEEPSEEK, dict(tp=1), (dict(tp=1),)),
    Scenario("more rollouts than trainers", models.DEEPSEEK, dict(tp=2), (dict(tp=4),)),
    Scenario("fewer rollouts than trainers", models.DEEPSEEK, dict(tp=4), (dict(tp=2),)),
    Scenario("first and last stage of their own size", models.DEEPSEEK,
             {"tp": 1, "pp": 3, "first-pipeline-layers": 1, "last-pipeline-layers": 2}, (dict(tp=2),)),
    Scenario("last stage of its own size, in virtual stages", models.DEEPSEEK,
             {"tp": 2, "pp": 2, "vpp": 2, "last-pipeline-layers": 2}, (dict(tp=2),)),
    Scenario("virtual pipeline stages", models.QWEN3, dict(tp=1, pp=2, vpp=2), (dict(tp=2),)),
    Scenario("embedding and loss counted as layers", models.DEEPSEEK,
             {"tp": 1, "pp": 2, "vpp": 2, "account-for-embedding": 1, "account-for-loss": 1},
             (dict(tp=2),)),
    Scenario("expert parallelism and expert tensor parallelism", models.DEEPSEEK,
             dict(tp=4, ep=2, etp=2), (dict(tp=4, ep=2),)),
    Scenario("experts over data-parallel ranks", models.DEEPSEEK,
             dict(tp=2, ep=4, etp=1), (dict(tp=2, ep=2),)),
    Scenario("attention data parallelism", models.DEEPSEEK, dict(tp=2), ({"tp": 4, "attn-dp": 2},)),
    Scenario("attention data parallelism, its own head and whole dense layers", models.DEEPSEEK,
             dict(tp=2), ({"tp": 4, "ep": 2, "attn-dp": 2, "dp-lm-head": 1, "moe-dense-tp": 1},)),
    Scenario("several engines", models.DEEPSEEK, dict(tp=2), (dict(tp=2, engines=3),)),
    Scenario("two groups of engines", models.DEEPSEEK, dict(tp=2),
             (dict(tp=2), {"tp": 4, "attn-dp": 2})),
    Scenario("rollout in pipeline stages", models.DEEPSEEK, dict(tp=2, pp=2), (dict(tp=1, pp=4),)),
    Scenario("multi-token prediction", models.DEEPSEEK, dict(tp=2, pp=2), (dict(tp=2, pp=2),),
             mtp=True),
    Scenario("shared experts among the routed ones", models.DEEPSEEK, dict(tp=2, ep=2),
             ({"tp": 4, "fuse-shared-experts": 1},)),
    Scenario("context and data replicas", models.DEEPSEEK, dict(tp=2, cp=2, dp=2), (dict(tp=2),)),
    Scenario("queries without compression, two shared experts", models.DEEPSEEK_V2,
             dict(tp=2), (dict(tp=4),)),
    Scenario("key-value heads held twice", models.QWEN3, dict(tp=2), (dict(tp=4),)),
    Scenario("trainer cuts inside a key-value head", models.QWEN3, dict(tp=4), (dict(tp=2),)),
    Scenario("tied embeddings in stages on both sides", models.QWEN3, dict(tp=2, pp=2),
             (dict(tp=2, pp=2),)),
    Scenario("every layer with experts, no shared ones", models.QWEN3_MOE, dict(tp=2, ep=4, etp=1),
             (dict(tp=4, ep=4),)),
    Scenario("biases and a score bias", models.GLM, dict(tp=2), (dict(tp=4),)),
    Scenario("biases cut inside a head, with its prediction layer", models.GLM,
             dict(tp=4, ep=2, etp=2), (dict(tp=2, ep=2),), mtp=True),
]
