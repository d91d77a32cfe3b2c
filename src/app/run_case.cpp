#include "run_case.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/plan/planner.hpp"
#include "weightlift/plan/statistics.hpp"
#include "weightlift/plan/steps.hpp"
#include "weightlift/sim/strategies.hpp"

#include "cluster_file.hpp"
#include "prediction_text.hpp"
#include "termination.hpp"

namespace weightlift::app {

using record::Sample;
using record::Validity;
using session::Session;
using session::Verify;

namespace {

/// What the simulator makes of this case on the cluster that is named.
class Forecast {
public:
    Forecast(const PushArguments& a, const Scene& scene, const session::Topology& topology,
             const session::Roles& roles)
        : cluster_(load_cluster(a.cluster)),
          // The plan that is pushed.
          where_(session::plan_options(topology, roles, a.push.minimum_slice)),
          planner_(scene.model, scene.trainer, scene.rollout, where_),
          statistics_(plan::gather_statistics(planner_)),
          fabric_(cluster_, planner_.trainers(), planner_.world_size()),
          stages_(a.push.trainer_stages),
          staging_limit_(a.push.staging_limit) {}

    void set_floor(record::CaseInfo& info, plan::Strategy strategy) const {
        // How many messages the bytes go in is the transport's choice, which may pack rows.
        const auto flows =
            flows_by(strategy, planner_, statistics_, fabric_, stages_, sim::Rows::Packed);
        const sim::Prediction bound = sim::bound_of(flows, fabric_);
        info.floor_ns = static_cast<std::uint64_t>(bound.bandwidth_seconds * 1e9);
        // A rank's bytes are held against the rate of what bounds it; memory and uplinks are no
        // rank's.
        if (bound.busiest.empty()) return;
        const sim::PortKind kind = bound.busiest.front().kind;
        if (kind == sim::PortKind::Nic)
            info.line_rate = static_cast<std::uint64_t>(cluster_.port_rate);
        else if (kind == sim::PortKind::NvLink)
            info.line_rate = static_cast<std::uint64_t>(cluster_.nvlink_rate);
    }

    /// The fastest of those that the staging limit leaves room for, and a sentence that says why.
    [[nodiscard]] std::pair<plan::Strategy, std::string> choose() const {
        auto all = predict_strategies(planner_, statistics_, fabric_, stages_, {kOrder});
        std::stable_sort(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
        std::string left_out;
        std::erase_if(all, [&](const auto& one) {
            const std::string why = why_not(parse_strategy(one.name));
            if (!why.empty()) left_out += fmt::format("; without {} ({})", one.name, why);
            return !why.empty();
        });
        return {parse_strategy(all.front().name), choice_text(all) + left_out};
    }

private:
    static constexpr sim::Order kOrder = sim::Order::Rotated;

    /// `direct` needs no staging.
    [[nodiscard]] std::string why_not(plan::Strategy strategy) const try {
        if (strategy != plan::Strategy::Direct)
            plan::StepPlanner(
                planner_, strategy,
                {.staging_limit = staging_limit_, .node = where_.node, .stages = stages_});
        return {};
    } catch (const ConfigError& error) {
        return error.what();
    }

    sim::Cluster cluster_;
    plan::PlanOptions where_;
    plan::Planner planner_;
    plan::PlanStatistics statistics_;
    sim::Fabric fabric_;
    int stages_;
    Bytes staging_limit_;
};

session::Roles make_roles(const PushArguments& a, const Scene& scene,
                          const mpi::Communicator& world, const mpi::Deadline& deadline) {
    const Rank t = scene.trainer.world_size(), r = scene.rollout.world_size();
    if (!a.roles.empty()) return session::parse_roles(a.roles, t, r);
    // Every rank takes part in this, whether or not it was given a role.
    const char mine = a.role.empty() ? '-' : a.role.front();
    const auto all = world.gather(mine, deadline, "roles");
    mpi::Bytestring bytes(all.size());
    std::transform(all.begin(), all.end(), bytes.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    world.broadcast(bytes, deadline, "roles");
    std::vector<layout::Side> sides;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const char c = static_cast<char>(bytes[i]);
        if ((c == '-') != (static_cast<char>(bytes[0]) == '-'))
            throw ConfigError(fmt::format("--role is given on some ranks but not on rank {}",
                                          c == '-' ? i : std::size_t{0}));
        sides.push_back(c == 't' ? layout::Side::Trainer : layout::Side::Rollout);
    }
    return a.role.empty() ? session::default_roles(t, r) : session::roles_from(sides, t, r);
}

}  // namespace

CaseInputs load_case(const session::Agreement& agreement, const PushArguments& a) {
    const mpi::Communicator& world = agreement.world();
    std::optional<Scene> scene;
    session::Roles roles;
    agreement.run("configuration", [&](const mpi::Deadline&) {
        scene.emplace(load_scene(a.scene, world.size()));
        const Rank t = scene->trainer.world_size(), r = scene->rollout.world_size();
        if (world.size() != t + r)
            throw ConfigError(fmt::format(
                "ranks launched: {}, but the layouts need {} (trainer) + {} (rollout) = {}",
                world.size(), t, r, t + r));
    });
    agreement.run("roles", [&](const mpi::Deadline& deadline) {
        roles = make_roles(a, *scene, world, deadline);
    });
    agreement.run("arguments", [&](const mpi::Deadline&) {
        const auto& flip = a.push.inject.flip;
        if (flip &&
            (flip->first >= world.size() || roles.side(flip->first) == layout::Side::Trainer))
            throw ConfigError(fmt::format("--inject flip: rank {} is not a rollout", flip->first));
    });
    agreement.require_equal(mix(scene->trainer.digest(), scene->rollout.digest()), "the layout",
                            "configuration");
    return {std::move(*scene), std::move(roles)};
}

ExitCode run_case(const Stage& stage, const PushArguments& a, const CaseInputs& inputs,
                  CaseObserver& observer) {
    const auto& [scene, roles] = inputs;
    const session::Agreement& agreement = stage.agreement;
    const mpi::Communicator& world = stage.world();
    session::PushOptions push = a.push;
    std::optional<Forecast> forecast;
    std::string why;
    agreement.run("forecast", [&](const mpi::Deadline&) {
        if (a.cluster.empty() || (world.rank() != 0 && !a.has_auto_strategy)) return;
        forecast.emplace(a, scene, stage.topology, roles);
        if (!a.has_auto_strategy) return;
        std::tie(push.strategy, why) = forecast->choose();
        if (world.rank() == 0) fmt::print(stderr, "weightlift: note: --strategy auto: {}\n", why);
    });
    Session session(agreement, stage.watchdog,
                    {scene.model, scene.trainer, scene.rollout, stage.topology, roles}, push);
    session.setup();
    auto description = session.describe();
    if (!why.empty()) description.events.push_back({"", "strategy", "auto: " + why, 0});
    if (description.staging > 0) {
        const std::string text =
            fmt::format("{} on the rank with the most, limit {}", human_bytes(description.staging),
                        human_bytes(push.staging_limit));
        fmt::print(stderr, "weightlift: note: staging: {}\n", text);
        description.events.push_back({"", "staging", text, 0});
    }
    agreement.run("results file", [&](const mpi::Deadline&) {
        description.info.options = options_json(a);
        if (forecast && world.rank() == 0) forecast->set_floor(description.info, push.strategy);
        observer.begin(std::move(description));
    });
    if (a.has_reference) observer.reference(session.reference_copy_ns());

    const mpi::Deadline until(a.duration);
    std::uint64_t pushed = 0;
    const auto goes_on = [&] {
        if (a.duration.count() == 0) return pushed < a.warmup + a.iterations;
        const mpi::Deadline deadline(a.push.timeout);
        // At least one counted push; rank 0's clock decides for all.
        const bool wants_more = pushed <= a.warmup || !until.passed();
        return world.max(world.rank() == 0 && wants_more ? 1 : 0, deadline, "duration") == 1;
    };
    bool is_right = true;
    while (goes_on()) {
        if (pushed > 0 && a.interval.count() > 0) sleep_unless_terminated(a.interval);
        const std::uint64_t version = ++pushed;
        Sample sample = session.push(version, version <= a.warmup);
        session::Verification checked;
        if (a.push.verify != Verify::None) {
            checked = session.verify(version);
            is_right = is_right && checked.is_right;
            sample.validity = checked.is_right ? Validity::Valid : Validity::Wrong;
            for (std::size_t r = 0; r < checked.rank_ns.size(); ++r)
                sample.phase_ns[r][static_cast<std::size_t>(record::Phase::Verify)] =
                    checked.rank_ns[r];
        }
        agreement.run("recording", [&](const mpi::Deadline&) {
            observer.iteration(sample, checked);
            end_if_terminated();
        });
    }
    observer.nics(session.nic_traffic());
    session.close();
    return is_right ? ExitCode::Ok : ExitCode::WrongData;
}

}  // namespace weightlift::app
