#include "options.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "weightlift/base/error.hpp"

#include "text.hpp"
#include "toml.hpp"

namespace weightlift::app {

namespace {

std::string suggest_flag(const CLI::App& app, const char* prefix, const std::string& wanted) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back(prefix + name);
    const std::vector<std::string_view> views(names.begin(), names.end());
    return suggestion(wanted, views);
}

}  // namespace

void add_scene_options(CLI::App& app, SceneOptions& options) {
    app.add_option("--model", options.model,
                   "config.json of Hugging Face, a shipped name (deepseek-v2-lite, …), or "
                   "tensor:SIZE, one tensor cut by rows");
    app.add_option_function<std::string>(
        "--layers",
        [&options](const std::string& text) {
            options.layers = parse_number(text, 1, 1'000'000, "--layers");
        },
        "keep the first N decoder layers");
    app.add_flag("--mtp", options.with_mtp, "keep multi-token-prediction layers");
    app.add_option("--dtype", options.dtype, "bf16, fp16, fp32, fp8 (default: the model's)");
    app.add_option("--trainer", options.trainer,
                   "Megatron layout: tp cp ep etp dp|world pp vpp first-pipeline-layers "
                   "last-pipeline-layers account-for-embedding account-for-loss; or @layout.json");
    app.add_option("--rollout", options.rollouts,
                   "SGLang layout: tp ep pp engines attn-dp moe-dense-tp dp-lm-head "
                   "fuse-shared-experts; may be repeated, one group each; or @layout.json")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.set_config("--config", "", "job file in TOML with the same names; flags win");
    app.config_formatter(std::make_shared<TomlFormat>());
    app.allow_config_extras(false);
}

Parsed parse_arguments(CLI::App& app, const std::vector<std::string>& arguments) {
    app.allow_extras();
    try {
        // CLI11 takes the arguments as a stack.
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return Parsed::HelpShown;
    } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("--config: {}", error.what()));
    } catch (const CLI::FileError& error) {
        throw ConfigError(fmt::format("--config: {}", error.what()));
    } catch (const CLI::ConfigError& error) {
        // CLI11 ends its sentence with the key.
        const std::string_view text = error.what();
        const std::string key(text.substr(text.rfind(' ') + 1));
        throw ConfigError(
            fmt::format("--config: unknown key {}{}", key, suggest_flag(app, "", key)));
    } catch (const CLI::ArgumentMismatch& error) {
        const std::string_view text = error.what();
        throw ConfigError(fmt::format("{}: takes one value, and is given {}",
                                      text.substr(0, text.find(':')),
                                      text.ends_with("missing") ? "none" : "more"));
    } catch (const CLI::ParseError& error) {
        throw ConfigError(error.what());
    }
    const auto extras = app.remaining();
    if (extras.empty()) return Parsed::Run;
    const std::string& first = extras.front();
    if (first.empty() || first.front() != '-')
        throw ConfigError(fmt::format("unexpected argument '{}'", first));
    const std::string flag = first.substr(0, first.find('='));
    throw UnknownFlag(fmt::format("unknown flag {}{}", flag, suggest_flag(app, "--", flag)));
}

}  // namespace weightlift::app
