"""What each trainer rank holds, by Megatron's rules: {parameter: rows} for a rank."""
from checkpoint import cut, cut_columns, padding


def smallest_dp(keys):
    """Smallest data parallelism with which the expert grid fills the same ranks."""
    dense = keys.get("tp", 1) * keys.get("cp", 1)
    expert = keys.get("etp", keys.get("tp", 1)) * keys.get("ep", 1)
    return next(dp for dp in range(1, expert + 1) if dense * dp % expert == 0)


def stage_layers(layers, keys):
    """For each pipeline stage, the layers of all its chunks."""
    stages, chunks = keys.get("pp", 1), keys.get("vpp", 1)
    first, last = keys.get("first-pipeline-layers"), keys.get("last-pipeline-layers")
    embedding, loss = keys.get("account-for-embedding", 0), keys.get("account-for-loss", 0)
    if first is not None or last is not None:
        middle = stages - (first is not None) - (last is not None)
        rest = layers - (first or 0) - (last or 0)
        sizes = [rest // middle if middle else 0] * stages
        if first is not None:
            sizes[0] = first
        if last is not None:
            sizes[-1] = last
        sizes = [[size // chunks] * chunks for size in sizes]
    else:
        size = (layers + embedding + loss) // stages // chunks
        sizes = [[size] * chunks for _ in range(stages)]
        sizes[0][0] -= embedding
        sizes[-1][-1] -= loss
    placed, at = [[] for _ in range(stages)], 0
    for chunk in range(chunks):
        for stage in range(stages):
            placed[stage] += range(at, at + sizes[stage][chunk])
            at += sizes[stage][chunk]
    assert at == layers, f"{at} of {layers} layers placed"
    return placed


class Trainer:
    def __init__(self, checkpoint, keys):
        self.checkpoint = checkpoint
        self.keys = keys
        self.tp, self.cp = keys.get("tp", 1), keys.get("cp", 1)
        self.ep, self.etp = keys.get("ep", 1), keys.get("etp", self.tp)
        self.pp = keys.get("pp", 1)
        self.dp = keys.get("dp", smallest_dp(keys))
        self.world_size = self.tp * self.cp * self.dp * self.pp
        self.stages = stage_layers(checkpoint.layers, keys)

    def contents(self, rank):
        stage = rank // (self.world_size // self.pp)
        is_last = stage == self.pp - 1
        held = {}
        for layer in self.stages[stage]:
            held.update(self._layer(rank, layer, f"decoder.layers.{layer}."))
        ck, mtp = self.checkpoint, self.checkpoint.mtp_layers
        if stage == 0 or (is_last and mtp):
            held["embedding.word_embeddings.weight"] = self._vocabulary(rank, "model.embed_tokens.weight")
        if is_last:
            held["decoder.final_layernorm.weight"] = ck.rows("model.norm.weight")
            if not ck.is_tied:
                held["output_layer.weight"] = self._vocabulary(rank, "lm_head.weight")
            elif self.pp > 1:
                held["output_layer.weight"] = self._vocabulary(rank, "model.embed_tokens.weight")
            for number in range(mtp):
                held.update(self._mtp(rank, number))
        return held

    def _vocabulary(self, rank, tensor):
        rows = self.checkpoint.rows(tensor)
        multiple = 128 * self.tp
        rows += padding(-len(rows) % multiple, len(rows[0]))
        return cut(rows, self.tp, rank % self.tp)

    def _mtp(self, rank, number):
        layer, at = self.checkpoint.layers + number, f"mtp.layers.{number}."
        source = f"model.layers.{layer}."
        held = self._layer(rank, layer, at + "transformer_layer.")
        rows = self.checkpoint.rows
        held[at + "eh_proj.weight"] = cut(rows(source + "eh_proj.weight"), self.tp, rank % self.tp)
        held[at + "enorm.weight"] = rows(source + "enorm.weight")
        held[at + "hnorm.weight"] = rows(source + "hnorm.weight")
        held[at + "final_layernorm.weight"] = rows(source + "shared_head.norm.weight")
        return held

    def _layer(self, rank, layer, at):
        ck = self.checkpoint
        tp, tp_rank = self.tp, rank % self.tp
        source = f"model.layers.{layer}."

        def get(name):
            return ck.rows(source + name)

        def mine(name):
            return cut(get(name), tp, tp_rank)

        def gate_up(name, parts, part):
            return (cut(get(name + "gate_proj.weight"), parts, part) +
                    cut(get(name + "up_proj.weight"), parts, part))

        def down(name, parts, part):
            return cut_columns(get(name + "down_proj.weight"), parts, part)

        held = {"self_attention.linear_proj.weight":
                cut_columns(get("self_attn.o_proj.weight"), tp, tp_rank)}
        if ck.is_latent:
            held["input_layernorm.weight"] = get("input_layernorm.weight")
            held["self_attention.linear_kv_down_proj.weight"] = get("self_attn.kv_a_proj_with_mqa.weight")
            held["self_attention.linear_kv_up_proj.layer_norm_weight"] = get("self_attn.kv_a_layernorm.weight")
            held["self_attention.linear_kv_up_proj.weight"] = mine("self_attn.kv_b_proj.weight")
            if ck.config["q_lora_rank"] is None:
                held["self_attention.linear_q_proj.weight"] = mine("self_attn.q_proj.weight")
            else:
                held["self_attention.linear_q_down_proj.weight"] = get("self_attn.q_a_proj.weight")
                held["self_attention.linear_q_up_proj.layer_norm_weight"] = get("self_attn.q_a_layernorm.weight")
                held["self_attention.linear_q_up_proj.weight"] = mine("self_attn.q_b_proj.weight")
        else:
            held["self_attention.linear_qkv.layer_norm_weight"] = get("input_layernorm.weight")
            held["self_attention.linear_qkv.weight"] = cut(self._qkv(source, "weight"), tp, tp_rank)
            if ck.config.get("attention_bias"):
                held["self_attention.linear_qkv.bias"] = cut(self._qkv(source, "bias"), tp, tp_rank)
            if ck.config.get("use_qk_norm", True):
                held["self_attention.q_layernorm.weight"] = get("self_attn.q_norm.weight")
                held["self_attention.k_layernorm.weight"] = get("self_attn.k_norm.weight")
        if not ck.has_experts(layer):
            held["mlp.linear_fc1.layer_norm_weight"] = get("post_attention_layernorm.weight")
            held["mlp.linear_fc1.weight"] = gate_up("mlp.", tp, tp_rank)
            held["mlp.linear_fc2.weight"] = down("mlp.", tp, tp_rank)
        else:
            held["pre_mlp_layernorm.weight"] = get("post_attention_layernorm.weight")
            held["mlp.router.weight"] = get("mlp.gate.weight")
            if ck.has_score_bias:
                held["mlp.router.expert_bias"] = get("mlp.gate.e_score_correction_bias")
            if ck.has_shared:
                held["mlp.shared_experts.linear_fc1.weight"] = gate_up("mlp.shared_experts.", tp, tp_rank)
                held["mlp.shared_experts.linear_fc2.weight"] = down("mlp.shared_experts.", tp, tp_rank)
            etp_rank, ep_rank = rank % self.etp, rank // self.etp % self.ep
            for expert in cut(range(ck.experts), self.ep, ep_rank):
                name = f"mlp.experts.{expert}."
                held[f"mlp.experts.linear_fc1.weight{expert}"] = gate_up(name, self.etp, etp_rank)
                held[f"mlp.experts.linear_fc2.weight{expert}"] = down(name, self.etp, etp_rank)
        return {at + name: rows for name, rows in held.items()}

    def _qkv(self, source, kind):
        """Rows interleaved by key-value head: its queries, its key, its value."""
        heads = self.checkpoint.config["num_key_value_heads"]
        rows = [self.checkpoint.rows(f"{source}self_attn.{x}_proj.{kind}") for x in "qkv"]
        return [row for head in range(heads) for part in rows for row in cut(part, heads, head)]
