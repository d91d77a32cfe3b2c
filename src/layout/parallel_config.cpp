#include "weightlift/layout/parallel_config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "weightlift/base/edit_distance.hpp"

namespace weightlift::layout {
namespace {

/// "tp=8,pp=2" split into keys and values, each key at most once and one of `known`.
class KeyValues {
public:
    KeyValues(std::string_view side, std::string_view text, std::span<const std::string_view> known)
        : side_(side) {
        if (text.empty()) throw ConfigError(fmt::format("{} is empty; give at least tp=N", side));
        while (true) {
            const std::size_t comma = text.find(',');
            add(text.substr(0, comma), known);
            if (comma == std::string_view::npos) break;
            text.remove_prefix(comma + 1);
        }
    }

    [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const {
        for (const auto& [k, v] : items_)
            if (k == key) return v;
        return {};
    }
    [[nodiscard]] std::optional<int> positive(std::string_view key) const {
        return number(key, 1, kMaxWorldSize);
    }
    [[nodiscard]] bool flag(std::string_view key) const {
        return number(key, 0, 1).value_or(0) == 1;
    }

private:
    void add(std::string_view item, std::span<const std::string_view> known) {
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size())
            throw ConfigError(fmt::format("{} '{}' is not of the form key=value", side_, item));
        const std::string_view key = item.substr(0, equals);
        if (std::find(known.begin(), known.end(), key) == known.end()) {
            const auto* nearest = std::min_element(
                known.data(), known.data() + known.size(),
                [&](auto a, auto b) { return edit_distance(key, a) < edit_distance(key, b); });
            throw ConfigError(fmt::format("{} key '{}' is unknown; the nearest is '{}' (keys: {})",
                                          side_, key, *nearest, fmt::join(known, " ")));
        }
        if (text(key)) throw ConfigError(fmt::format("{} key '{}' is given twice", side_, key));
        items_.emplace_back(key, item.substr(equals + 1));
    }

    [[nodiscard]] std::optional<int> number(std::string_view key, int least, int most) const {
        const auto value = text(key);
        if (!value) return {};
        int parsed = 0;
        const char* end = value->data() + value->size();
        const auto result = std::from_chars(value->data(), end, parsed);
        if (result.ec != std::errc{} || result.ptr != end || parsed < least || parsed > most)
            throw ConfigError(fmt::format("{} {}={} must be an integer from {} to {}", side_, key,
                                          *value, least, most));
        return parsed;
    }

    std::string_view side_;
    std::vector<std::pair<std::string_view, std::string_view>> items_;
};

constexpr std::array<std::string_view, 12> kTrainerKeys = {"tp",
                                                           "cp",
                                                           "ep",
                                                           "pp",
                                                           "vpp",
                                                           "etp",
                                                           "dp",
                                                           "world",
                                                           "first-pipeline-layers",
                                                           "last-pipeline-layers",
                                                           "account-for-embedding",
                                                           "account-for-loss"};
constexpr std::array<std::string_view, 9> kRolloutKeys = {
    "tp",           "ep",         "pp",
    "engines",      "attn-dp",    "dp",
    "moe-dense-tp", "dp-lm-head", "fuse-shared-experts"};

void require_in_range(std::string_view side,
                      std::initializer_list<std::pair<std::string_view, int>> values) {
    for (const auto& [key, value] : values)
        if (value < 1 || value > kMaxWorldSize)
            throw ConfigError(fmt::format("{} {}={} must be an integer from 1 to {}", side, key,
                                          value, kMaxWorldSize));
}

/// Product of factors of at most kMaxWorldSize each, refused above kMaxWorldSize.
std::int64_t checked_world(std::string_view what, std::initializer_list<std::int64_t> factors) {
    std::int64_t world = 1;
    for (const std::int64_t factor : factors) {
        world *= factor;
        if (world > kMaxWorldSize)
            throw ConfigError(fmt::format("{} = {} is above the limit of {} ranks", what,
                                          fmt::join(factors, " x "), kMaxWorldSize));
    }
    return world;
}

/// dp from a number of ranks: ranks / (tp * cp * pp), which must be whole.
int data_parallel_of(const TrainerConfig& config, std::string_view key, int ranks) {
    const std::int64_t group =
        checked_world("trainer tp x cp x pp", {config.tp, config.cp, config.pp});
    if (ranks % group != 0)
        throw ConfigError(
            fmt::format("trainer {} is not a multiple of tp x cp x pp = {} x {} x {} = {}", key,
                        config.tp, config.cp, config.pp, group));
    return narrow<int>(ranks / group, "trainer dp");
}

/// Sets dp from the keys dp and world, which must agree.
void resolve_data_parallel(TrainerConfig& config, const KeyValues& values,
                           std::optional<int> launched) {
    if (values.text("dp") == "auto") {
        if (!launched)
            throw ConfigError("trainer dp=auto needs launched ranks; offline give dp=N or world=N");
        require_in_range("launched", {{"trainers", *launched}});
        config.dp = data_parallel_of(
            config, fmt::format("dp=auto with {} launched ranks", *launched), *launched);
    } else {
        config.dp = values.positive("dp");
    }
    const std::optional<int> world = values.positive("world");
    if (!world) return;
    if (!config.dp) {
        config.dp = data_parallel_of(config, fmt::format("world={}", *world), *world);
        return;
    }
    const std::int64_t product =
        checked_world("trainer tp x cp x pp x dp", {config.tp, config.cp, config.pp, *config.dp});
    if (product != *world)
        throw ConfigError(
            fmt::format("trainer world={} differs from tp x cp x pp x dp = {} x {} x {} x {} = {}",
                        *world, config.tp, config.cp, config.pp, *config.dp, product));
}

}  // namespace

int TrainerConfig::smallest_data_parallel() const {
    const std::int64_t dense = std::int64_t{tp} * cp;
    const std::int64_t expert = std::int64_t{expert_tp()} * ep;
    return narrow<int>(expert / std::gcd(dense, expert), "trainer dp");
}

void TrainerConfig::check() const {
    require_in_range("trainer", {{"tp", tp},
                                 {"cp", cp},
                                 {"ep", ep},
                                 {"pp", pp},
                                 {"vpp", vpp},
                                 {"etp", expert_tp()},
                                 {"dp", dp.value_or(1)},
                                 {"first-pipeline-layers", first_pipeline_layers.value_or(1)},
                                 {"last-pipeline-layers", last_pipeline_layers.value_or(1)}});
    checked_world("trainer tp x cp x pp", {tp, cp, pp});
    const std::int64_t expert_grid = checked_world("trainer etp x ep x pp", {expert_tp(), ep, pp});
    const std::int64_t world =
        checked_world("trainer world = tp x cp x pp x dp", {tp, cp, pp, data_parallel()});
    if (world % expert_grid != 0)
        throw ConfigError(
            fmt::format("trainer world = tp x cp x pp x dp = {} x {} x {} x {} = {} "
                        "is not a multiple of etp x ep x pp = {} x {} x {} = {}",
                        tp, cp, pp, data_parallel(), world, expert_tp(), ep, pp, expert_grid));
}

void RolloutConfig::check() const {
    require_in_range("rollout", {{"tp", tp},
                                 {"ep", ep},
                                 {"pp", pp},
                                 {"engines", engines},
                                 {"attn-dp", attn_dp},
                                 {"moe-dense-tp", dense_tp()}});
    checked_world("rollout tp x pp x engines", {tp, pp, engines});
    const auto require_divides_tp = [this](std::string_view key, int value) {
        if (tp % value != 0)
            throw ConfigError(fmt::format("rollout {}={} does not divide tp={}", key, value, tp));
    };
    require_divides_tp("ep", ep);
    require_divides_tp("attn-dp", attn_dp);
    if (dense_tp() != 1 && dense_tp() != tp)
        throw ConfigError(
            fmt::format("rollout moe-dense-tp={} must be 1 or tp={}", dense_tp(), tp));
    if (fuse_shared_experts && ep != 1)
        throw ConfigError(fmt::format("rollout fuse-shared-experts=1 needs ep=1, not ep={}", ep));
}

TrainerConfig parse_trainer(std::string_view text, std::optional<int> launched) {
    const KeyValues values("trainer", text, kTrainerKeys);
    TrainerConfig config;
    config.tp = values.positive("tp").value_or(1);
    config.cp = values.positive("cp").value_or(1);
    config.ep = values.positive("ep").value_or(1);
    config.pp = values.positive("pp").value_or(1);
    config.vpp = values.positive("vpp").value_or(1);
    config.etp = values.positive("etp");
    if (config.etp == config.tp) config.etp.reset();
    config.first_pipeline_layers = values.positive("first-pipeline-layers");
    config.last_pipeline_layers = values.positive("last-pipeline-layers");
    config.account_for_embedding = values.flag("account-for-embedding");
    config.account_for_loss = values.flag("account-for-loss");
    resolve_data_parallel(config, values, launched);
    config.check();
    config.dp = config.data_parallel();
    return config;
}

RolloutConfig parse_rollout(std::string_view text) {
    const KeyValues values("rollout", text, kRolloutKeys);
    RolloutConfig config;
    config.tp = values.positive("tp").value_or(1);
    config.ep = values.positive("ep").value_or(1);
    config.pp = values.positive("pp").value_or(1);
    config.engines = values.positive("engines").value_or(1);
    if (values.text("attn-dp") && values.text("dp"))
        throw ConfigError("rollout dp is another name of attn-dp; give one of them");
    config.attn_dp = values.positive(values.text("dp") ? "dp" : "attn-dp").value_or(1);
    config.moe_dense_tp = values.positive("moe-dense-tp");
    if (config.moe_dense_tp == config.tp) config.moe_dense_tp.reset();
    config.dp_lm_head = values.flag("dp-lm-head");
    config.fuse_shared_experts = values.flag("fuse-shared-experts");
    config.check();
    return config;
}

namespace {

class Text {
public:
    explicit Text(int tp) : text_(fmt::format("tp={}", tp)) {}
    void add(std::string_view key, int value, int standard) {
        if (value != standard) text_ += fmt::format(",{}={}", key, value);
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

private:
    std::string text_;
};

}  // namespace

std::string to_string(const TrainerConfig& config) {
    Text text(config.tp);
    text.add("cp", config.cp, 1);
    text.add("ep", config.ep, 1);
    text.add("pp", config.pp, 1);
    text.add("vpp", config.vpp, 1);
    text.add("etp", config.expert_tp(), config.tp);
    text.add("dp", config.data_parallel(), config.smallest_data_parallel());
    text.add("first-pipeline-layers", config.first_pipeline_layers.value_or(0), 0);
    text.add("last-pipeline-layers", config.last_pipeline_layers.value_or(0), 0);
    text.add("account-for-embedding", config.account_for_embedding ? 1 : 0, 0);
    text.add("account-for-loss", config.account_for_loss ? 1 : 0, 0);
    return text.take();
}

std::string to_string(const RolloutConfig& config) {
    Text text(config.tp);
    text.add("ep", config.ep, 1);
    text.add("pp", config.pp, 1);
    text.add("engines", config.engines, 1);
    text.add("attn-dp", config.attn_dp, 1);
    text.add("moe-dense-tp", config.dense_tp(), config.tp);
    text.add("dp-lm-head", config.dp_lm_head ? 1 : 0, 0);
    text.add("fuse-shared-experts", config.fuse_shared_experts ? 1 : 0, 0);
    return text.take();
}

}  // namespace weightlift::layout
