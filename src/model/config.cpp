#include "weightlift/model/config.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightlift/base/error.hpp"

namespace weightlift::model {
namespace {

using Json = nlohmann::json;

enum class AttentionKind { Latent, Grouped };
enum class MlpKind { Dense, DeepSeek, Qwen, Glm };

/// What a model_type decides by itself; the rest is read from the fields.
struct Family {
    std::string_view model_type;
    AttentionKind attention;
    MlpKind mlp;

    /// DeepSeek and GLM begin with dense layers and may end with MTP layers.
    [[nodiscard]] bool has_dense_head_and_mtp() const {
        return mlp == MlpKind::DeepSeek || mlp == MlpKind::Glm;
    }
};

constexpr std::array<Family, 6> kFamilies{{
    {"deepseek_v2", AttentionKind::Latent, MlpKind::DeepSeek},
    {"deepseek_v3", AttentionKind::Latent, MlpKind::DeepSeek},
    {"kimi_k2", AttentionKind::Latent, MlpKind::DeepSeek},
    {"qwen3", AttentionKind::Grouped, MlpKind::Dense},
    {"qwen3_moe", AttentionKind::Grouped, MlpKind::Qwen},
    {"glm4_moe", AttentionKind::Grouped, MlpKind::Glm},
}};

/// Never descends into arrays and objects, whose depth and length the file's author chose.
std::string shown(const Json& value) {
    if (value.is_array()) return value.empty() ? "an empty list" : "a list";
    if (value.is_object()) return "an object";
    constexpr std::size_t longest = 60;
    std::string text = value.dump(-1, ' ', true);
    if (text.size() > longest) text.replace(longest, std::string::npos, "...");
    return text;
}

Json parse_object(std::string_view text, const std::string& model) {
    try {
        Json json = Json::parse(text);
        if (!json.is_object())
            throw ConfigError(
                fmt::format("{}: the config is {}, must be a JSON object", model, shown(json)));
        return json;
    } catch (const Json::parse_error& error) {
        // `byte` counts the bytes read, the offending one included; one more than all at the end.
        const std::size_t at = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
        const std::string_view before = text.substr(0, at);
        const auto line = std::count(before.begin(), before.end(), '\n') + 1;
        const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 == 0
        throw ConfigError(fmt::format("{}: the config is not JSON, {} at line {}, column {}", model,
                                      at < text.size() ? "unexpected text" : "it ends too early",
                                      line, at - line_begin + 1));
    } catch (const Json::out_of_range&) {
        throw ConfigError(fmt::format(
            "{}: the config is not JSON, a number in it is larger than any double", model));
    }
}

/// Typed access to the fields of one config; every complaint names the field, its value, the rule.
class Fields {
public:
    Fields(std::string_view text, std::string model)
        : model_(std::move(model)), json_(parse_object(text, model_)) {}

    [[nodiscard]] const std::string& model() const { return model_; }

    /// Null counts as absent, as it does in the reference implementations.
    [[nodiscard]] bool has(const char* field) const {
        const auto found = json_.find(field);
        return found != json_.end() && !found->is_null();
    }

    [[nodiscard]] bool is_null(const char* field) const {
        const auto found = json_.find(field);
        return found != json_.end() && found->is_null();
    }

    [[nodiscard]] std::uint64_t size(const char* field) const { return integer(field, 1); }

    [[nodiscard]] std::uint64_t count(const char* field) const { return integer(field, 0); }

    [[nodiscard]] bool flag(const char* field, bool when_absent) const {
        if (!has(field)) return when_absent;
        const Json& value = json_.at(field);
        if (!value.is_boolean()) reject(field, "must be true or false");
        return value.get<bool>();
    }

    [[nodiscard]] std::string text(const char* field) const {
        const auto found = json_.find(field);
        if (found == json_.end() || !found->is_string()) reject(field, "must be a string");
        return found->get<std::string>();
    }

    /// For what would change the structure in a way that we have no names for.
    void require(const char* field, const Json& only, std::string_view rule) const {
        if (has(field) && json_.at(field) != only) reject(field, rule);
    }

    [[noreturn]] void reject(const char* field, std::string_view rule) const {
        const auto found = json_.find(field);
        throw ConfigError(
            found == json_.end()
                ? fmt::format("{}: {} is missing, {}", model_, field, rule)
                : fmt::format("{}: {} is {}, {}", model_, field, shown(*found), rule));
    }

private:
    [[nodiscard]] std::uint64_t integer(const char* field, std::uint64_t least) const {
        const auto found = json_.find(field);
        // The parser keeps integers of up to 64 bits unsigned; what is longer became a float.
        constexpr auto most = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
        if (found == json_.end() || !found->is_number_unsigned() ||
            found->get<std::uint64_t>() < least || found->get<std::uint64_t>() > most)
            reject(field, fmt::format("must be an integer from {} to 2^63-1", least));
        return found->get<std::uint64_t>();
    }

    std::string model_;
    Json json_;
};

const Family& find_family(const Fields& fields) {
    const std::string model_type = fields.text("model_type");
    for (const Family& family : kFamilies)
        if (family.model_type == model_type) return family;
    std::string supported;
    for (const Family& family : kFamilies)
        supported.append(supported.empty() ? "" : ", ").append(family.model_type);
    fields.reject("model_type", "must be one of " + supported);
}

LatentAttention read_latent_attention(const Fields& fields, std::vector<std::string>& notes) {
    fields.require("attention_bias", false, "only false is supported");
    LatentAttention latent;
    if (fields.has("q_lora_rank"))
        latent.q_lora_rank = fields.size("q_lora_rank");
    else if (!fields.is_null("q_lora_rank"))
        notes.emplace_back("q_lora_rank is missing and taken as null: one full q_proj.");
    latent.kv_lora_rank = fields.size("kv_lora_rank");
    latent.qk_nope_head_dim = fields.size("qk_nope_head_dim");
    latent.qk_rope_head_dim = fields.size("qk_rope_head_dim");
    latent.v_head_dim = fields.size("v_head_dim");
    return latent;
}

GroupedAttention read_grouped_attention(const Fields& fields, const Family& family,
                                        std::uint64_t heads) {
    GroupedAttention grouped;
    grouped.kv_heads = fields.size("num_key_value_heads");
    if (heads % grouped.kv_heads != 0)
        fields.reject("num_key_value_heads",
                      fmt::format("must divide num_attention_heads {}", heads));
    grouped.head_dim = fields.size("head_dim");
    if (family.mlp == MlpKind::Glm) {
        grouped.has_bias = fields.flag("attention_bias", false);
        grouped.has_qk_norm = fields.flag("use_qk_norm", false);
    } else {
        // In Qwen3 it would give o_proj a bias too.
        fields.require("attention_bias", false, "only false is supported");
        grouped.has_qk_norm = true;
    }
    return grouped;
}

std::uint64_t read_shared_experts(const Fields& fields) {
    const char* field = "n_shared_experts";
    return fields.is_null(field) ? 0 : fields.count(field);
}

bool read_score_bias(const Fields& fields, std::vector<std::string>& notes) {
    if (fields.has("topk_method")) return fields.text("topk_method") == "noaux_tc";
    notes.emplace_back("topk_method is missing: no e_score_correction_bias.");
    return false;
}

std::optional<Experts> read_experts(const Fields& fields, const Family& family,
                                    std::vector<std::string>& notes) {
    Experts experts;
    switch (family.mlp) {
        case MlpKind::Dense: return std::nullopt;
        case MlpKind::Qwen:
            fields.require("decoder_sparse_step", 1,
                           "only 1 is supported: every layer must have experts");
            fields.require("mlp_only_layers", Json::array(),
                           "only an empty list is supported: every layer must have experts");
            experts.routed = fields.size("num_experts");
            break;
        case MlpKind::DeepSeek:
            fields.require("moe_layer_freq", 1,
                           "only 1 is supported: every layer after the dense ones must have "
                           "experts");
            experts.routed = fields.size("n_routed_experts");
            experts.shared = read_shared_experts(fields);
            experts.has_score_bias = read_score_bias(fields, notes);
            break;
        case MlpKind::Glm:
            experts.routed = fields.size("n_routed_experts");
            experts.shared = read_shared_experts(fields);
            experts.has_score_bias = true;
            break;
    }
    experts.intermediate_size = fields.size("moe_intermediate_size");
    return experts;
}

std::uint64_t read_layers(const Fields& fields, const ConfigOptions& options) {
    const std::uint64_t layers = fields.size("num_hidden_layers");
    if (!options.layers) return layers;
    if (*options.layers < 1 || *options.layers > layers)
        throw ConfigError(fmt::format("{}: layers is {}, must be from 1 to num_hidden_layers {}",
                                      fields.model(), *options.layers, layers));
    return *options.layers;
}

std::uint64_t read_mtp_layers(const Fields& fields, const Family& family) {
    const char* field = "num_nextn_predict_layers";
    const bool can_have = family.has_dense_head_and_mtp() && fields.has(field);
    const std::uint64_t layers = can_have ? fields.count(field) : 0;
    if (layers == 0)
        throw ConfigError(fmt::format(
            "{}: mtp is asked for, but the model has no multi-token-prediction layers ({})",
            fields.model(),
            can_have ? fmt::format("{} is 0", field) : fmt::format("no {}", field)));
    return layers;
}

DType read_dtype(const Fields& fields, std::vector<std::string>& notes) {
    const bool newer = fields.has("dtype");
    const bool older = fields.has("torch_dtype");
    if (!newer && !older) {
        notes.emplace_back("Neither torch_dtype nor dtype is given: bf16 is assumed.");
        return DType::BF16;
    }
    const char* field = newer ? "dtype" : "torch_dtype";
    if (newer && older && fields.text("dtype") != fields.text("torch_dtype"))
        fields.reject("dtype", "must be the same as torch_dtype");
    if (const auto dtype = parse_dtype(fields.text(field))) return *dtype;
    fields.reject(field, "must be bfloat16, float16, float32 or float8_e4m3fn");
}

Architecture read_architecture(const Fields& fields, const ConfigOptions& options,
                               std::vector<std::string>& notes) {
    const Family& family = find_family(fields);
    Architecture a;
    a.model_type = family.model_type;
    a.hidden_size = fields.size("hidden_size");
    a.layers = read_layers(fields, options);
    a.heads = fields.size("num_attention_heads");
    a.vocab_size = fields.size("vocab_size");
    // Absent means false in the configuration classes of all these families.
    a.tied_embeddings = fields.flag("tie_word_embeddings", false);
    if (family.attention == AttentionKind::Latent)
        a.latent = read_latent_attention(fields, notes);
    else
        a.grouped = read_grouped_attention(fields, family, a.heads);
    a.experts = read_experts(fields, family, notes);
    if (!a.experts)
        a.dense_layers = a.layers;
    else if (family.has_dense_head_and_mtp())
        a.dense_layers = std::min(fields.count("first_k_dense_replace"), a.layers);
    if (a.dense_layers > 0) a.intermediate_size = fields.size("intermediate_size");
    if (options.with_mtp) a.mtp_layers = read_mtp_layers(fields, family);
    return a;
}

}  // namespace

ParsedModel parse_config(std::string_view json_text, const ConfigOptions& options) {
    const Fields fields(json_text, options.name.empty() ? "config.json" : options.name);
    std::vector<std::string> notes;
    Architecture architecture = read_architecture(fields, options, notes);
    const DType dtype = options.dtype ? *options.dtype : read_dtype(fields, notes);
    if (fields.has("quantization_config"))
        notes.push_back(fmt::format("quantization_config is ignored: weights are taken as {}.",
                                    to_string(dtype)));
    std::vector<TensorSpec> tensors = make_tensors(architecture, dtype);
    return {ModelSpec(fields.model(), std::move(tensors), std::move(architecture)),
            std::move(notes)};
}

}  // namespace weightlift::model
