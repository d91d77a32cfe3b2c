#include "inputs.hpp"

#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/layout/layout_file.hpp"
#include "weightlift/layout/rules.hpp"
#include "weightlift/model/config.hpp"

#include "catalog.hpp"
#include "one_tensor.hpp"

namespace weightlift::app {

namespace {

bool is_file(const std::string& text) { return !text.empty() && text.front() == '@'; }

layout::Layout layout_from_file(const std::string& argument, layout::Side side,
                                const model::ModelSpec& model) {
    layout::Layout layout = layout::parse_layout(read_text(argument.substr(1)), model);
    if (layout.side() != side)
        throw ConfigError(fmt::format("--{} {}: the file describes a {}", to_string(side), argument,
                                      to_string(layout.side())));
    return layout;
}

std::vector<layout::RolloutConfig> rollout_groups(const std::vector<std::string>& texts) {
    std::vector<layout::RolloutConfig> groups;
    for (const std::string& text : texts) {
        if (is_file(text))
            throw ConfigError(
                fmt::format("--rollout {}: a layout file describes all engines and cannot stand "
                            "beside other groups",
                            text));
        groups.push_back(layout::parse_rollout(text));
    }
    return groups;
}

}  // namespace

Scene load_scene(const SceneOptions& options, std::optional<int> launched) {
    if (options.trainer.empty()) throw ConfigError("--trainer is missing (e.g. --trainer tp=8)");
    if (options.rollouts.empty()) throw ConfigError("--rollout is missing (e.g. --rollout tp=16)");
    if (is_one_tensor(options.model)) return make_one_tensor(options, launched);
    const bool rollout_file = options.rollouts.size() == 1 && is_file(options.rollouts.front());
    const bool trainer_file = is_file(options.trainer);

    std::vector<std::string> notes;
    auto model = [&] {
        if (!options.model.empty()) {
            model::ConfigOptions config;
            config.name = model_name(options.model);
            config.layers = options.layers;
            config.with_mtp = options.with_mtp;
            if (!options.dtype.empty()) {
                config.dtype = parse_dtype(options.dtype);
                if (!config.dtype)
                    throw ConfigError(
                        fmt::format("--dtype {}: not one of bf16, fp16, fp32, fp8", options.dtype));
            }
            auto parsed = model::parse_config(model_text(options.model), config);
            notes = std::move(parsed.notes);
            return std::move(parsed.spec);
        }
        if (!trainer_file || !rollout_file)
            throw ConfigError(
                "--model is missing; only two layout files (--trainer @file --rollout @file) do "
                "without");
        if (options.layers || options.with_mtp || !options.dtype.empty())
            throw ConfigError(
                "--layers, --mtp and --dtype need --model: layout files say what they hold");
        return layout::parse_layout_model(read_text(options.trainer.substr(1)));
    }();

    auto rollout = rollout_file
                       ? layout_from_file(options.rollouts.front(), layout::Side::Rollout, model)
                       : layout::make_sglang_layout(model, rollout_groups(options.rollouts));
    std::optional<int> trainers;
    if (launched) trainers = *launched - rollout.world_size();
    auto trainer = trainer_file ? layout_from_file(options.trainer, layout::Side::Trainer, model)
                                : layout::make_megatron_layout(
                                      model, layout::parse_trainer(options.trainer, trainers));
    return {std::move(model), std::move(trainer), std::move(rollout), std::move(notes)};
}

}  // namespace weightlift::app
