// Random small models and configurations: what the pieces say a rank holds must be, element by
// element, what literal slicing of the checkpoint gives it.
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "weightlift/layout/rules.hpp"

#include "models.hpp"
#include "oracles.hpp"

namespace weightlift::layout {
namespace {

/// The content of a rank's parameters as its pieces and padding declare it.
oracle::Parameters content_of(const Layout& layout, const ModelSpec& model, Rank rank) {
    oracle::Parameters result;
    for (const ParameterIndex index : layout.parameters_of(rank)) {
        const Parameter& parameter = layout.parameter(index);
        const auto sizes = parameter.shape.values();
        oracle::Array array = oracle::Array::filled({sizes.begin(), sizes.end()}, oracle::kUnset);
        const std::uint64_t bytes = element_bytes(parameter.dtype);
        for (const Piece& piece : parameter.pieces)
            for (std::uint64_t i = 0; i < piece.box.rows.size(); ++i)
                for (std::uint64_t j = 0; j < piece.box.columns.size(); ++j) {
                    const std::uint64_t element =
                        (piece.box.rows.begin + i) * model.tensor(piece.tensor).columns +
                        piece.box.columns.begin + j;
                    array.values.at((piece.offset + i * piece.pitch) / bytes + j) =
                        oracle::identity(piece.tensor, element);
                }
        for (const Padding& padding : parameter.padding)
            for (std::uint64_t i = 0; i < padding.rows; ++i)
                for (std::uint64_t j = 0; j < padding.row_bytes / bytes; ++j)
                    array.values.at((padding.offset + i * padding.pitch) / bytes + j) =
                        oracle::kPadding;
        EXPECT_TRUE(result.emplace(parameter.name, std::move(array)).second) << parameter.name;
    }
    return result;
}

void expect_equal(const oracle::Parameters& actual, const oracle::Parameters& expected) {
    for (const auto& [name, array] : expected) {
        const auto found = actual.find(name);
        ASSERT_NE(found, actual.end()) << name << " is missing";
        ASSERT_EQ(found->second.shape, array.shape) << name;
        ASSERT_EQ(found->second.values, array.values) << name;
    }
    for (const auto& [name, unused] : actual)
        ASSERT_TRUE(expected.contains(name)) << name << " is not expected";
}

/// Every element of every tensor is held by some rank in [first, last).
void expect_complete(const Layout& layout, const ModelSpec& model, Rank first, Rank last) {
    for (TensorId tensor = 0; tensor < model.tensors().size(); ++tensor) {
        const model::TensorSpec& spec = model.tensor(tensor);
        std::vector<bool> seen(spec.elements());
        for (const PieceRef& ref : layout.pieces_of(tensor)) {
            const Parameter& parameter = layout.parameter(ref.parameter);
            const auto ranks = layout.rank_set(parameter.ranks);
            const auto at = std::lower_bound(ranks.begin(), ranks.end(), first);
            if (at == ranks.end() || *at >= last) continue;
            const Piece& piece = parameter.pieces[ref.piece];
            ASSERT_EQ(piece.tensor, tensor);
            for (std::uint64_t i = piece.box.rows.begin; i < piece.box.rows.end; ++i)
                for (std::uint64_t j = piece.box.columns.begin; j < piece.box.columns.end; ++j)
                    seen[i * spec.columns + j] = true;
        }
        ASSERT_EQ(std::count(seen.begin(), seen.end(), true),
                  static_cast<std::ptrdiff_t>(spec.elements()))
            << spec.name;
    }
}

class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    int from(int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(engine_);
    }
    std::uint64_t size(std::uint64_t least, std::uint64_t most) {
        return std::uniform_int_distribution<std::uint64_t>(least, most)(engine_);
    }
    bool coin() { return from(0, 1) == 1; }
    int of(std::initializer_list<int> values) {
        return values.begin()[from(0, static_cast<int>(values.size()) - 1)];
    }

private:
    std::mt19937_64 engine_;
};

std::uint64_t unsign(int n) { return static_cast<std::uint64_t>(n); }

/// What the two frameworks ask the sizes of a model to be divisible by.
struct Divisors {
    int heads = 1;          ///< ranks over which attention heads are cut
    int intermediate = 1;   ///< … and dense MLPs and shared experts
    int experts = 1;        ///< … and routed experts
    int expert_width = 1;   ///< … and the width of one
    int hidden = 1;         ///< … and the rows of eh_proj
    bool all_rows = false;  ///< all rows of q, k and v together are cut evenly (linear_qkv)
};

/// All sizes random multiples of what they must be divisible by; no layers yet.
model::Architecture random_sizes(Random& random, const Divisors& by) {
    model::Architecture a;
    a.model_type = "random";
    a.hidden_size = unsign(by.hidden) * random.size(1, 3);
    a.intermediate_size = unsign(by.intermediate) * random.size(1, 3);
    a.vocab_size = random.size(5, 300);
    a.tied_embeddings = random.coin();
    if (random.coin()) {
        a.heads = unsign(by.heads) * random.size(1, 2);
        a.latent = {{}, random.size(1, 4), random.size(1, 3), random.size(1, 3), random.size(1, 3)};
        if (random.coin()) a.latent->q_lora_rank = random.size(1, 4);
    } else {
        model::GroupedAttention grouped;
        grouped.kv_heads = unsign(by.heads) * random.size(1, 2);
        if (random.coin()) {  // fewer key-value heads than ranks, where that can be
            do grouped.kv_heads = random.size(1, unsign(by.heads));
            while (unsign(by.heads) % grouped.kv_heads != 0);
        }
        a.heads = std::lcm(grouped.kv_heads, unsign(by.heads)) * random.size(1, 2);
        grouped.head_dim = random.size(1, 3);
        while (by.all_rows &&
               (a.heads + 2 * grouped.kv_heads) * grouped.head_dim % unsign(by.heads) != 0)
            ++grouped.head_dim;
        grouped.has_bias = random.coin();
        grouped.has_qk_norm = random.coin();
        a.grouped = grouped;
    }
    if (random.from(0, 2) > 0) {
        a.experts = model::Experts{
            unsign(by.experts) * random.size(1, 3), random.size(0, 2),
            unsign(std::lcm(by.expert_width, by.intermediate)) * random.size(1, 2), random.coin()};
    }
    return a;
}

void set_layers(model::Architecture& a, Random& random, std::uint64_t layers) {
    a.layers = layers;
    a.dense_layers = a.experts ? random.size(0, layers - 1) : layers;
    a.mtp_layers = random.from(0, 2) == 0 ? random.size(1, 2) : 0;
}

/// A legal number of layers for the configuration, whose pipeline keys it sets.
std::uint64_t random_stages(Random& random, TrainerConfig& config) {
    if (config.pp > 1) config.vpp = random.from(1, 2);
    const int chunks = config.pp * config.vpp;
    const int per_chunk = random.from(1, 2);
    switch (random.from(0, 2)) {
        case 0: {  // uneven
            int layers = per_chunk * chunks;
            const auto outer = [&](std::optional<int>& key) {
                key = config.vpp * random.from(1, 3);
                layers += *key - per_chunk * config.vpp;
            };
            if (random.coin()) outer(config.first_pipeline_layers);
            if (random.coin() && (config.pp > 1 || !config.first_pipeline_layers))
                outer(config.last_pipeline_layers);
            return unsign(layers);
        }
        case 1: {  // embedding or loss count as a layer
            config.account_for_embedding = random.coin();
            config.account_for_loss = random.coin();
            const int taken =
                (config.account_for_embedding ? 1 : 0) + (config.account_for_loss ? 1 : 0);
            return unsign((per_chunk + 2) * chunks - taken);
        }
        default: return unsign(per_chunk * chunks);
    }
}

/// All ranks of a small world, otherwise a random few of a large one.
std::vector<Rank> some_ranks(Random& random, Rank world) {
    std::vector<Rank> ranks(static_cast<std::size_t>(world));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (world <= 24) return ranks;
    for (Rank& rank : ranks) rank = random.from(0, world - 1);
    ranks.resize(24);
    return ranks;
}

TEST(MegatronLayout, agrees_with_literal_slicing_over_random_models_and_configurations) {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
        Random random(seed);
        TrainerConfig config;
        config.tp = random.of({1, 2, 3, 4});
        config.cp = random.of({1, 2});
        config.pp = random.of({1, 1, 2, 3});
        config.etp = random.of({1, 2, 3});
        config.ep = random.of({1, 2, 4});
        model::Architecture arch = random_sizes(random, {.heads = config.tp,
                                                         .intermediate = config.tp,
                                                         .experts = config.ep,
                                                         .expert_width = *config.etp,
                                                         .hidden = config.tp,
                                                         .all_rows = true});
        if (!arch.experts) config.ep = 1;
        set_layers(arch, random, random_stages(random, config));
        config.dp = config.smallest_data_parallel() * random.from(1, 2);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_string(config));

        const ModelSpec model = make_model(arch);
        const Layout layout = make_megatron_layout(model, config);
        ASSERT_EQ(layout.world_size(), config.tp * config.cp * *config.dp * config.pp);
        expect_complete(layout, model, 0, layout.world_size());
        for (const Rank rank : some_ranks(random, layout.world_size())) {
            SCOPED_TRACE("rank " + std::to_string(rank));
            expect_equal(content_of(layout, model, rank),
                         oracle::megatron_rank(model, config, rank));
            if (HasFatalFailure()) return;
        }
    }
}

RolloutConfig random_rollout(Random& random) {
    RolloutConfig config;
    config.tp = random.of({1, 2, 3, 4, 6, 8});
    do config.attn_dp = random.from(1, config.tp);
    while (config.tp % config.attn_dp != 0);
    do config.ep = random.from(1, config.tp);
    while (config.tp % config.ep != 0);
    config.pp = random.of({1, 1, 2, 3});
    config.engines = random.from(1, 2);
    if (random.coin()) config.moe_dense_tp = 1;
    config.dp_lm_head = random.coin();
    return config;
}

TEST(SglangLayout, agrees_with_literal_slicing_over_random_models_and_configurations) {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
        Random random(seed);
        std::vector<RolloutConfig> groups = {random_rollout(random)};
        const RolloutConfig first = groups.front();
        model::Architecture arch =
            random_sizes(random, {.heads = first.attention_tp(),
                                  .intermediate = first.tp,
                                  .experts = std::lcm(first.tp, first.ep),  // tp <= experts
                                  .expert_width = first.moe_tp()});
        // Padded to 64 rows, which 3 does not divide.
        if (first.tp % 3 == 0) arch.vocab_size = 192 - random.size(0, 63);
        if (!arch.experts) groups[0].ep = 1;
        if (arch.experts && arch.experts->shared == 1 && first.ep == 1)
            groups[0].fuse_shared_experts = random.coin();
        set_layers(arch, random, random.size(unsign(first.pp), unsign(first.pp) + 3));
        if (random.coin()) {  // a second group that fits any model
            groups.push_back({});
            groups.back().engines = random.from(1, 2);
        }
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_string(groups[0]));

        const ModelSpec model = make_model(arch);
        const Layout layout = make_sglang_layout(model, groups);
        Rank rank = 0;
        int engine = 0;
        for (const RolloutConfig& group : groups)
            for (int i = 0; i < group.engines; ++i, ++engine) {
                expect_complete(layout, model, rank, rank + group.engine_size());
                for (int engine_rank = 0; engine_rank < group.engine_size();
                     ++engine_rank, ++rank) {
                    SCOPED_TRACE("rank " + std::to_string(rank));
                    ASSERT_EQ(layout.engine_of(rank), engine);
                    ASSERT_EQ(layout.engine_rank_of(rank), engine_rank);
                    expect_equal(content_of(layout, model, rank),
                                 oracle::sglang_rank(model, group, engine_rank));
                    if (HasFatalFailure()) return;
                }
            }
        ASSERT_EQ(rank, layout.world_size());
    }
}

}  // namespace
}  // namespace weightlift::layout
