"""Small configs of every architecture; sizes differ from each other so that mix-ups show."""
import json

DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 32, "intermediate_size": 48,
    "moe_intermediate_size": 16, "num_hidden_layers": 6, "first_k_dense_replace": 2,
    "num_attention_heads": 8, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 8, "n_shared_experts": 1,
    "topk_method": "noaux_tc", "num_nextn_predict_layers": 1, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "vocab_size": 1030,
}
# Queries without compression, two shared experts, no score bias.
DEEPSEEK_V2 = dict(DEEPSEEK, model_type="deepseek_v2", q_lora_rank=None, n_shared_experts=2,
                   topk_method="greedy", first_k_dense_replace=1, num_hidden_layers=3)
# Heads times head size is not the hidden size; the embedding is the output layer, too.
QWEN3 = {
    "model_type": "qwen3", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 6,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": 300,
}
QWEN3_MOE = {
    "model_type": "qwen3_moe", "hidden_size": 32, "intermediate_size": 48,
    "moe_intermediate_size": 16, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 6, "num_experts": 8, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "vocab_size": 300,
}
GLM = {
    "model_type": "glm4_moe", "hidden_size": 32, "intermediate_size": 48,
    "moe_intermediate_size": 16, "num_hidden_layers": 4, "first_k_dense_replace": 1,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 6, "attention_bias": True,
    "use_qk_norm": True, "n_routed_experts": 8, "n_shared_experts": 1,
    "num_nextn_predict_layers": 1, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "vocab_size": 300,
}


def write(config, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return path
