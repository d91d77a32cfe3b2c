#include "cases.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/plan/planner.hpp"

#include "../inputs.hpp"

namespace weightlift::app::sweep {

namespace {

std::string name_of(const std::vector<std::string>& parts, const std::string& variant) {
    std::string name;
    for (const std::string& part : parts) name += (name.empty() ? "" : "/") + part;
    return variant.empty() ? name : name + "/" + variant;
}

std::string setting(const Settings& settings, std::string_view name, std::string otherwise) {
    for (const auto& [key, value] : settings)
        if (key == name) return value;
    return otherwise;
}

void describe(Case& one, const Scene& scene) {
    one.model = scene.model.name();
    one.trainer = scene.trainer.description();
    one.rollout = scene.rollout.description();
    one.parameters = scene.model.parameter_count();
    one.model_bytes = scene.model.bytes();
    one.name = name_of(
        {one.model, one.trainer, one.rollout,
         one.push.has_auto_strategy ? "auto" : std::string(plan::to_string(one.push.push.strategy)),
         one.push.push.transport},
        one.variant);
    one.trainers = scene.trainer.world_size();
    one.rollouts = scene.rollout.world_size();
    for (const layout::Layout* layout : {&scene.trainer, &scene.rollout})
        for (Rank r = 0; r < layout->world_size(); ++r) {
            const Bytes bytes = layout->bytes_of(r);
            one.rank_bytes = std::max(one.rank_bytes, bytes);
            if (layout == &scene.rollout) one.bytes += bytes;
        }
    one.pushes = one.push.duration.count() > 0 ? 0 : one.push.warmup + one.push.iterations;
}

/// ConfigError where the weights of the ranks of some host are more than it has. What transports
/// need besides shows only once they are set up.
void require_memory(const Case& one, const Scene& scene, const session::Roles& roles,
                    const Hosts& hosts) {
    if (one.push.push.memory != memory::MemoryKind::Host) return;
    for (const Host& host : hosts) {
        Bytes bytes = 0;
        int players = 0;
        for (const int rank : host.ranks) {
            if (rank >= one.ranks()) continue;
            const Rank plan = roles.plan_rank[static_cast<std::size_t>(rank)];
            bytes = checked_add(bytes,
                                plan < one.trainers ? scene.trainer.bytes_of(plan)
                                                    : scene.rollout.bytes_of(plan - one.trainers),
                                "memory of a host");
            ++players;
        }
        if (bytes > host.memory)
            throw ConfigError(fmt::format(
                "host {}: its {} {} for weights, but only {} of memory is available there",
                host.name, players == 1 ? "one rank needs" : fmt::format("{} ranks need", players),
                human_bytes(bytes), human_bytes(host.memory)));
    }
}

Case make_case(Settings settings, std::string variant, std::optional<int> launched,
               const Hosts& hosts) {
    Case one;
    one.variant = std::move(variant);
    one.name =
        name_of({setting(settings, "model", "layout files"), setting(settings, "trainer", "-"),
                 setting(settings, "rollout", "-"), setting(settings, "strategy", "direct"),
                 setting(settings, "transport", "auto")},
                one.variant);
    one.settings = std::move(settings);
    try {
        static_cast<void>(parse_push(to_arguments(one.settings), one.push));
        const Scene scene = load_scene(one.push.scene, launched);
        describe(one, scene);
        // Throws where the two sides do not fit.
        const plan::Planner planner(scene.model, scene.trainer, scene.rollout, {});
        if (launched && one.ranks() > *launched)
            throw ConfigError(
                fmt::format("needs {} (trainer) + {} (rollout) = {} ranks, and {} are "
                            "there",
                            one.trainers, one.rollouts, one.ranks(), *launched));
        const session::Roles roles =
            one.push.roles.empty()
                ? session::default_roles(one.trainers, one.rollouts)
                : session::parse_roles(one.push.roles, one.trainers, one.rollouts);
        require_memory(one, scene, roles, hosts);
    } catch (const UnknownFlag&) {
        throw;
    } catch (const ConfigError& error) {
        one.rule = error.what();
    }
    return one;
}

}  // namespace

std::vector<Case> make_cases(const Job& job, std::optional<int> launched, const Hosts& hosts) {
    const std::vector<Settings> all = multiply(job);
    const std::vector<std::string> variant = variants(all);
    std::vector<Case> once;
    for (std::size_t i = 0; i < all.size(); ++i)
        once.push_back(make_case(all[i], variant[i], launched, hosts));
    std::vector<Case> cases;
    for (std::uint64_t repetition = 0; repetition < job.repetitions; ++repetition)
        for (Case one : once) {
            one.repetition = repetition;
            cases.push_back(std::move(one));
        }
    return cases;
}

}  // namespace weightlift::app::sweep
