#include "one_tensor.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightlift/base/error.hpp"
#include "weightlift/layout/layout_file.hpp"
#include "weightlift/layout/parallel_config.hpp"

#include "text.hpp"

namespace weightlift::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "tensor:";
constexpr Bytes kRowBytes = 4 * KiB;
constexpr std::uint64_t kColumns = kRowBytes / 2;  // bf16

/// The layout file of one side: `shards` equal parts by rows, each held by `copies` ranks.
std::string layout_text(const SceneOptions& options, layout::Side side, std::uint64_t rows,
                        const std::string& description, int shards, int copies, bool has_engines) {
    if (rows % static_cast<std::uint64_t>(shards) != 0)
        throw ConfigError(fmt::format("--model {}: {} tp={} does not divide its {} rows of {}",
                                      options.model, to_string(side), shards, rows,
                                      human_bytes(kRowBytes)));
    const std::uint64_t part = rows / static_cast<std::uint64_t>(shards);
    Json parameters = Json::array();
    for (int shard = 0; shard < shards; ++shard) {
        const std::uint64_t first = part * static_cast<std::uint64_t>(shard);
        Json ranks = Json::array();
        for (int copy = 0; copy < copies; ++copy) ranks.push_back(shard + shards * copy);
        const Json box = {{first, first + part}, {0, kColumns}};
        parameters.push_back(
            {{"name", "weight"},
             {"shape", {part, kColumns}},
             {"dtype", "bf16"},
             {"format", "plain"},
             {"ranks", ranks},
             {"pieces",
              Json::array(
                  {{{"tensor", "weight"}, {"box", box}, {"offset", 0}, {"pitch", kRowBytes}}})}});
    }
    Json begins = Json::array({0});
    for (int engine = 1; has_engines && engine < copies; ++engine)
        begins.push_back(shards * engine);
    return Json{
        {"schema", "weightlift-layout/1"},
        {"side", to_string(side)},
        {"description", description},
        {"model", options.model},
        {"world_size", shards * copies},
        {"engine_begins", begins},
        {"tensors",
         Json::array({{{"name", "weight"}, {"dtype", "bf16"}, {"shape", {rows, kColumns}}}})},
        {"parameters", parameters}}
        .dump();
}

}  // namespace

bool is_one_tensor(const std::string& model) { return model.starts_with(kPrefix); }

Scene make_one_tensor(const SceneOptions& options, std::optional<int> launched) {
    if (options.layers || options.with_mtp || !options.dtype.empty())
        throw ConfigError(
            fmt::format("--model {}: is one tensor of bf16, without --layers, --mtp and --dtype",
                        options.model));
    const Bytes bytes = parse_bytes(options.model.substr(kPrefix.size()), "--model tensor:");
    if (bytes == 0 || bytes % kRowBytes != 0)
        throw ConfigError(fmt::format("--model {}: not a multiple of a row of {}", options.model,
                                      human_bytes(kRowBytes)));
    if (options.rollouts.size() != 1)
        throw ConfigError("--rollout: of one tensor, one group of engines");
    const layout::RolloutConfig rollout = layout::parse_rollout(options.rollouts.front());
    if (rollout != layout::RolloutConfig{.tp = rollout.tp, .engines = rollout.engines})
        throw ConfigError(fmt::format("--rollout {}: of one tensor, only tp and engines",
                                      options.rollouts.front()));
    std::optional<int> trainers;
    if (launched) trainers = *launched - rollout.world_size();
    const layout::TrainerConfig trainer = layout::parse_trainer(options.trainer, trainers);
    if (trainer != layout::TrainerConfig{.tp = trainer.tp, .dp = trainer.dp})
        throw ConfigError(
            fmt::format("--trainer {}: of one tensor, only tp and dp", options.trainer));

    const std::uint64_t rows = bytes / kRowBytes;
    const std::string from = layout_text(options, layout::Side::Trainer, rows, to_string(trainer),
                                         trainer.tp, trainer.data_parallel(), false);
    const std::string to = layout_text(options, layout::Side::Rollout, rows, to_string(rollout),
                                       rollout.tp, rollout.engines, true);
    model::ModelSpec model = layout::parse_layout_model(from);
    layout::Layout trainer_layout = layout::parse_layout(from, model);
    layout::Layout rollout_layout = layout::parse_layout(to, model);
    return {std::move(model), std::move(trainer_layout), std::move(rollout_layout), {}};
}

}  // namespace weightlift::app
