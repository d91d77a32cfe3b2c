"""What each rollout rank holds, by SGLang's rules: {parameter: rows} for a rank."""
from checkpoint import cut, cut_columns, padding


class Group:
    """Equal engines; ranks count through them."""

    def __init__(self, checkpoint, keys):
        self.checkpoint = checkpoint
        self.tp, self.pp = keys.get("tp", 1), keys.get("pp", 1)
        self.ep, self.engines = keys.get("ep", 1), keys.get("engines", 1)
        self.attn_tp = self.tp // keys.get("attn-dp", 1)
        self.moe_tp = self.tp // self.ep
        self.dense_tp = keys.get("moe-dense-tp", self.tp)
        self.head_tp = self.attn_tp if keys.get("dp-lm-head") else self.tp
        self.is_fused = bool(keys.get("fuse-shared-experts"))
        self.world_size = self.engines * self.tp * self.pp

    def _stage_layers(self, stage):
        size, more = divmod(self.checkpoint.layers, self.pp)
        sizes = [size + (s >= self.pp - more) for s in range(self.pp)]
        return range(sum(sizes[:stage]), sum(sizes[:stage + 1]))

    def contents(self, rank):
        rank, stage = rank % self.tp, rank // self.tp % self.pp
        ck = self.checkpoint
        held = {}
        for layer in self._stage_layers(stage):
            at = f"model.layers.{layer}."
            held.update(self._layer(rank, layer, at))
        if stage == 0:
            held["model.embed_tokens.weight"] = self._vocabulary(
                "model.embed_tokens.weight", self.attn_tp, rank % self.attn_tp)
        if stage == self.pp - 1:
            held["model.norm.weight"] = ck.rows("model.norm.weight")
            if not ck.is_tied or self.pp > 1:
                source = "model.embed_tokens.weight" if ck.is_tied else "lm_head.weight"
                held["lm_head.weight"] = self._vocabulary(source, self.head_tp, rank % self.head_tp)
            for number in range(ck.mtp_layers):
                at = f"model.layers.{ck.layers + number}."
                held.update(self._layer(rank, ck.layers + number, at + "decoder."))
                for name in ("eh_proj", "enorm", "hnorm", "shared_head.norm"):
                    held[f"{at}{name}.weight"] = ck.rows(f"{at}{name}.weight")
        return held

    def _vocabulary(self, tensor, parts, part):
        rows = self.checkpoint.rows(tensor)
        rows += padding(-len(rows) % 64, len(rows[0]))
        return cut(rows, parts, part)

    def _layer(self, rank, layer, at):
        ck, config = self.checkpoint, self.checkpoint.config
        attn_tp, attn_rank = self.attn_tp, rank % self.attn_tp
        source = f"model.layers.{layer}."

        def get(name):
            return ck.rows(source + name)

        def heads_of(name):
            return cut(get(name), attn_tp, attn_rank)

        def gate_up(name, parts, part):
            return (cut(get(name + "gate_proj.weight"), parts, part) +
                    cut(get(name + "up_proj.weight"), parts, part))

        def down(name, parts, part):
            return cut_columns(get(name + "down_proj.weight"), parts, part)

        held = {"input_layernorm.weight": get("input_layernorm.weight"),
                "post_attention_layernorm.weight": get("post_attention_layernorm.weight"),
                "self_attn.o_proj.weight":
                    cut_columns(get("self_attn.o_proj.weight"), attn_tp, attn_rank)}
        if ck.is_latent:
            held["self_attn.kv_a_layernorm.weight"] = get("self_attn.kv_a_layernorm.weight")
            held["self_attn.kv_b_proj.weight"] = heads_of("self_attn.kv_b_proj.weight")
            kv_down = get("self_attn.kv_a_proj_with_mqa.weight")
            if config["q_lora_rank"] is None:
                held["self_attn.q_proj.weight"] = heads_of("self_attn.q_proj.weight")
                held["self_attn.kv_a_proj_with_mqa.weight"] = kv_down
            else:
                held["self_attn.q_a_layernorm.weight"] = get("self_attn.q_a_layernorm.weight")
                held["self_attn.q_b_proj.weight"] = heads_of("self_attn.q_b_proj.weight")
                held["self_attn.fused_qkv_a_proj_with_mqa.weight"] = get("self_attn.q_a_proj.weight") + kv_down
        else:
            held["self_attn.qkv_proj.weight"] = self._qkv(source, "weight", attn_rank)
            if config.get("attention_bias"):
                held["self_attn.qkv_proj.bias"] = self._qkv(source, "bias", attn_rank)
            if config.get("use_qk_norm", True):
                held["self_attn.q_norm.weight"] = get("self_attn.q_norm.weight")
                held["self_attn.k_norm.weight"] = get("self_attn.k_norm.weight")
        if not ck.has_experts(layer):
            held["mlp.gate_up_proj.weight"] = gate_up("mlp.", self.dense_tp, rank % self.dense_tp)
            held["mlp.down_proj.weight"] = down("mlp.", self.dense_tp, rank % self.dense_tp)
        else:
            held["mlp.gate.weight"] = get("mlp.gate.weight")
            if ck.has_score_bias:
                held["mlp.gate.e_score_correction_bias"] = get("mlp.gate.e_score_correction_bias")
            moe_tp, moe_rank = self.moe_tp, rank % self.moe_tp
            names = [f"mlp.experts.{e}." for e in cut(range(ck.experts), self.ep, rank // moe_tp)]
            if self.is_fused:
                names.append("mlp.shared_experts.")
            elif ck.has_shared:
                held["mlp.shared_experts.gate_up_proj.weight"] = gate_up("mlp.shared_experts.", self.tp, rank)
                held["mlp.shared_experts.down_proj.weight"] = down("mlp.shared_experts.", self.tp, rank)
            held["mlp.experts.w13_weight"] = [row for n in names for row in gate_up(n, moe_tp, moe_rank)]
            held["mlp.experts.w2_weight"] = [row for n in names for row in down(n, moe_tp, moe_rank)]
        return {at + name: rows for name, rows in held.items()}

    def _qkv(self, source, kind, attn_rank):
        """[q; k; v], with key and value heads held several times where there are too few."""
        heads = self.checkpoint.config["num_key_value_heads"]
        q, k, v = (self.checkpoint.rows(f"{source}self_attn.{x}_proj.{kind}") for x in "qkv")
        copies = max(1, self.attn_tp // heads)
        parts, part = self.attn_tp // copies, attn_rank // copies
        return cut(q, self.attn_tp, attn_rank) + cut(k, parts, part) + cut(v, parts, part)


class Rollout:
    def __init__(self, checkpoint, groups):
        self.groups = [Group(checkpoint, keys) for keys in groups]
        self.world_size = sum(group.world_size for group in self.groups)

    def contents(self, rank):
        for group in self.groups:
            if rank < group.world_size:
                return group.contents(rank)
            rank -= group.world_size
        raise IndexError(rank)
