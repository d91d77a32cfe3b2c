"""The tensors of a Hugging Face checkpoint, filled with numbers that say where they come from.

A tensor is a list of rows, a row is a range of numbers. One number stands for two bytes: a bf16
element is one, a float32 element two. All numbers of a checkpoint differ, so that an array of them
shows which element lies where. A vector is a tensor with one element a row.
"""
from dataclasses import dataclass

UNIT = 2  # bytes that one number stands for
EMPTY = -1  # where nothing has been written, and padding


@dataclass
class Tensor:
    first: int
    count: int
    width: int
    element: int  # numbers per element

    def rows(self):
        ends = range(self.first, self.first + self.count * self.width + 1, self.width)
        return [range(a, b) for a, b in zip(ends, ends[1:])]


def padding(rows, width):
    return [(EMPTY,) * width] * rows


def cut(rows, parts, part):
    """The part-th of equal parts along rows."""
    size, rest = divmod(len(rows), parts)
    assert rest == 0, f"{len(rows)} rows in {parts} parts"
    return rows[part * size:(part + 1) * size]


def cut_columns(rows, parts, part):
    size, rest = divmod(len(rows[0]), parts)
    assert rest == 0, f"{len(rows[0])} columns in {parts} parts"
    return [row[part * size:(part + 1) * size] for row in rows]


class Checkpoint:
    """tensors[name], by the names and shapes of the architecture's checkpoint."""

    def __init__(self, config, with_mtp=False):
        self.config = config
        self.tensors = {}
        self.size = 0
        c = config
        self.is_latent = c["model_type"].startswith(("deepseek", "kimi"))
        self.is_tied = c["tie_word_embeddings"]
        self.layers = c["num_hidden_layers"]
        self.mtp_layers = c["num_nextn_predict_layers"] if with_mtp else 0
        self.experts = c.get("n_routed_experts", c.get("num_experts", 0))
        self.dense_layers = c.get("first_k_dense_replace", 0) if self.experts else self.layers
        self.has_shared = c.get("n_shared_experts", 0) > 0
        self.has_score_bias = (c["model_type"] == "glm4_moe" or
                               self.is_latent and c["topk_method"] == "noaux_tc")
        hidden, vocabulary = c["hidden_size"], c["vocab_size"]
        self._add("model.embed_tokens.weight", vocabulary, hidden)
        for layer in range(self.layers + self.mtp_layers):
            self._layer(layer)
        self._add("model.norm.weight", hidden)
        if not self.is_tied:
            self._add("lm_head.weight", vocabulary, hidden)

    def rows(self, name):
        return self.tensors[name].rows()

    def has_experts(self, layer):
        return layer >= self.dense_layers

    def _add(self, name, rows, columns=1, element=1):
        self.tensors[name] = Tensor(self.size, rows, columns * element, element)
        self.size += rows * columns * element

    def _layer(self, layer):
        c, at, hidden = self.config, f"model.layers.{layer}.", self.config["hidden_size"]
        self._add(at + "input_layernorm.weight", hidden)
        self._add(at + "post_attention_layernorm.weight", hidden)
        (self._latent_attention if self.is_latent else self._grouped_attention)(at + "self_attn.")
        if self.has_experts(layer):
            self._experts(at + "mlp.")
        else:
            self._mlp(at + "mlp.", c["intermediate_size"])
        if layer >= self.layers:
            self._add(at + "eh_proj.weight", hidden, 2 * hidden)
            for norm in ("enorm", "hnorm", "shared_head.norm"):
                self._add(f"{at}{norm}.weight", hidden)

    def _latent_attention(self, at):
        c, hidden, heads = self.config, self.config["hidden_size"], self.config["num_attention_heads"]
        query = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        rank, kv_rank = c["q_lora_rank"], c["kv_lora_rank"]
        if rank is None:
            self._add(at + "q_proj.weight", heads * query, hidden)
        else:
            self._add(at + "q_a_proj.weight", rank, hidden)
            self._add(at + "q_a_layernorm.weight", rank)
            self._add(at + "q_b_proj.weight", heads * query, rank)
        self._add(at + "kv_a_proj_with_mqa.weight", kv_rank + c["qk_rope_head_dim"], hidden)
        self._add(at + "kv_a_layernorm.weight", kv_rank)
        self._add(at + "kv_b_proj.weight", heads * (c["qk_nope_head_dim"] + c["v_head_dim"]), kv_rank)
        self._add(at + "o_proj.weight", hidden, heads * c["v_head_dim"])

    def _grouped_attention(self, at):
        c, hidden, size = self.config, self.config["hidden_size"], self.config["head_dim"]
        heads = {"q": c["num_attention_heads"], "k": c["num_key_value_heads"],
                 "v": c["num_key_value_heads"]}
        for name, count in heads.items():
            self._add(f"{at}{name}_proj.weight", count * size, hidden)
            if c.get("attention_bias"):
                self._add(f"{at}{name}_proj.bias", count * size)
        self._add(at + "o_proj.weight", hidden, c["num_attention_heads"] * size)
        if c.get("use_qk_norm", True):
            self._add(at + "q_norm.weight", size)
            self._add(at + "k_norm.weight", size)

    def _mlp(self, at, size):
        hidden = self.config["hidden_size"]
        self._add(at + "gate_proj.weight", size, hidden)
        self._add(at + "up_proj.weight", size, hidden)
        self._add(at + "down_proj.weight", hidden, size)

    def _experts(self, at):
        c = self.config
        self._add(at + "gate.weight", self.experts, c["hidden_size"])
        if self.has_score_bias:
            self._add(at + "gate.e_score_correction_bias", self.experts, element=2)
        for expert in range(self.experts):
            self._mlp(f"{at}experts.{expert}.", c["moe_intermediate_size"])
        if self.has_shared:
            self._mlp(at + "shared_experts.", c["n_shared_experts"] * c["moe_intermediate_size"])
