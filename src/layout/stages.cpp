// Layers per pipeline stage.
#include <fmt/format.h>

#include "weightlift/layout/rules.hpp"

#include "requirements.hpp"

namespace weightlift::layout {
namespace {

using Stages = std::vector<std::vector<Interval>>;

void refuse_indivisible(std::string_view what, std::uint64_t layers, std::string_view key,
                        int value) {
    if (layers % static_cast<std::uint64_t>(value) != 0)
        throw ConfigError(
            fmt::format("trainer {}={} does not divide {} {}", key, value, layers, what));
}

/// Sizes of first, middle and last stages when at least one of the outer two is given.
Stages uneven_stages(std::uint64_t layers, const TrainerConfig& config) {
    if (config.account_for_embedding || config.account_for_loss)
        throw ConfigError(
            "trainer account-for-embedding and account-for-loss cannot be combined with "
            "first-pipeline-layers or last-pipeline-layers");
    const bool has_first = config.first_pipeline_layers.has_value();
    const bool has_last = config.last_pipeline_layers.has_value();
    const int middle_stages = config.pp - (has_first ? 1 : 0) - (has_last ? 1 : 0);
    if (middle_stages < 0)
        throw ConfigError(
            fmt::format("trainer first-pipeline-layers with last-pipeline-layers needs pp of at "
                        "least 2, not pp={}",
                        config.pp));
    const auto first = static_cast<std::uint64_t>(config.first_pipeline_layers.value_or(0));
    const auto last = static_cast<std::uint64_t>(config.last_pipeline_layers.value_or(0));
    const std::string outer = has_first && has_last ? fmt::format(
                                                          "first-pipeline-layers={} and "
                                                          "last-pipeline-layers={}",
                                                          first, last)
                              : has_first ? fmt::format("first-pipeline-layers={}", first)
                                          : fmt::format("last-pipeline-layers={}", last);
    const std::uint64_t outer_layers = first + last;
    if (outer_layers > layers || (middle_stages == 0 && outer_layers != layers) ||
        (middle_stages > 0 && outer_layers == layers))
        throw ConfigError(fmt::format("trainer {} leave {} of {} layers to {} other stages", outer,
                                      outer_layers > layers ? 0 : layers - outer_layers, layers,
                                      middle_stages));
    std::uint64_t middle = 0;
    if (middle_stages > 0) {
        if ((layers - outer_layers) % static_cast<std::uint64_t>(middle_stages) != 0)
            throw ConfigError(
                fmt::format("trainer {} leave {} of {} layers, which {} other stages do not divide",
                            outer, layers - outer_layers, layers, middle_stages));
        middle = (layers - outer_layers) / static_cast<std::uint64_t>(middle_stages);
    }
    refuse_indivisible("layers of the first stage", first, "vpp", config.vpp);
    refuse_indivisible("layers of the last stage", last, "vpp", config.vpp);
    refuse_indivisible("layers of the other stages", middle, "vpp", config.vpp);

    const auto chunks = static_cast<std::uint64_t>(config.vpp);
    Stages stages(static_cast<std::size_t>(config.pp));
    std::uint64_t layer = 0;
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk)
        for (std::size_t stage = 0; stage < stages.size(); ++stage) {
            const bool is_first = has_first && stage == 0;
            const bool is_last = has_last && stage + 1 == stages.size();
            const std::uint64_t size = (is_first ? first : is_last ? last : middle) / chunks;
            stages[stage].push_back({layer, layer + size});
            layer += size;
        }
    return stages;
}

/// Equal stages, where embedding and loss may each count as one layer.
Stages even_stages(std::uint64_t layers, const TrainerConfig& config) {
    const std::uint64_t counted =
        layers + (config.account_for_embedding ? 1 : 0) + (config.account_for_loss ? 1 : 0);
    const std::string what =
        counted == layers ? std::string("layers (see first-pipeline-layers, last-pipeline-layers)")
                          : fmt::format("layers ({} and embedding or loss)", layers);
    refuse_indivisible(what, counted, "pp", config.pp);
    const std::uint64_t per_stage = counted / static_cast<std::uint64_t>(config.pp);
    refuse_indivisible("layers per stage", per_stage, "vpp", config.vpp);
    const std::uint64_t per_chunk = per_stage / static_cast<std::uint64_t>(config.vpp);

    Stages stages(static_cast<std::size_t>(config.pp));
    std::uint64_t layer = 0;
    for (int chunk = 0; chunk < config.vpp; ++chunk)
        for (int stage = 0; stage < config.pp; ++stage) {
            const bool has_embedding = config.account_for_embedding && chunk == 0 && stage == 0;
            const bool has_loss =
                config.account_for_loss && chunk == config.vpp - 1 && stage == config.pp - 1;
            const std::uint64_t taken = (has_embedding ? 1U : 0U) + (has_loss ? 1U : 0U);
            if (taken > per_chunk)
                throw ConfigError(fmt::format(
                    "trainer account-for-embedding and account-for-loss take {} layers of a stage "
                    "of {}",
                    taken, per_chunk));
            stages[static_cast<std::size_t>(stage)].push_back({layer, layer + per_chunk - taken});
            layer += per_chunk - taken;
        }
    return stages;
}

}  // namespace

Stages megatron_stage_layers(std::uint64_t layers, const TrainerConfig& config) {
    if (config.vpp > 1 && config.pp == 1)
        throw ConfigError(
            fmt::format("trainer vpp={} needs pp of at least 2, not pp=1", config.vpp));
    return config.first_pipeline_layers || config.last_pipeline_layers
               ? uneven_stages(layers, config)
               : even_stages(layers, config);
}

std::vector<Interval> sglang_stage_layers(std::uint64_t layers, int pp) {
    const auto stages = static_cast<std::uint64_t>(pp);
    std::vector<Interval> result;
    std::uint64_t layer = 0;
    for (std::uint64_t stage = 0; stage < stages; ++stage) {
        const std::uint64_t size = layers / stages + (stage + layers % stages >= stages ? 1 : 0);
        result.push_back({layer, layer + size});
        layer += size;
    }
    return result;
}

}  // namespace weightlift::layout
