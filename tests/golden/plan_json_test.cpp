// Three small plans as `plan --format json` prints them, kept under tests/golden/plans as text with
// one transfer a line. After a wanted change of the planner or of the format:
//   WEIGHTLIFT_REGENERATE_GOLDEN=1 build/…/golden_plans, and review the difference.
#include "app/plan_json.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <ostream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weightlift/plan/statistics.hpp"

namespace weightlift::app {
namespace {

using nlohmann::json;

struct Golden {
    const char* name;
    const char* model;
    const char* trainer;
    const char* rollout;
};
std::ostream& operator<<(std::ostream& out, const Golden& row) { return out << row.name; }

constexpr Golden kPlans[] = {
    {"dense_tp2_to_tp4", "small-dense", "tp=2", "tp=4"},
    {"moe_ep2_tp2_to_ep4", "small-moe", "tp=2,ep=2,dp=2", "tp=4,ep=4"},
    {"pp2_to_tp4", "small-dense", "tp=1,pp=2", "tp=4"},
};

Scene scene_of(const Golden& plan) {
    SceneOptions options;
    options.model =
        WEIGHTLIFT_SOURCE_DIR "/tests/golden/models/" + std::string(plan.model) + ".json";
    if (std::string_view(plan.name) == "dense_tp2_to_tp4") options.layers = 1;
    options.trainer = plan.trainer;
    options.rollouts = {plan.rollout};
    return load_scene(options);
}

/// Small slices, so that these small tensors are cut, too.
plan::Planner planner_of(const Scene& scene) {
    return plan::Planner(scene.model, scene.trainer, scene.rollout,
                         {.minimum_slice = 256, .place = {}, .node = {}});
}

std::string text_of(const Scene& scene, const plan::Planner& planner, PlanView view) {
    const auto stats = plan::gather_statistics(planner);
    char* data = nullptr;
    std::size_t size = 0;
    std::FILE* out = open_memstream(&data, &size);
    write_plan_json(out, scene, planner, stats.digest, stats.bytes, view);
    std::fclose(out);
    const std::unique_ptr<char, decltype(&std::free)> owned(data, &std::free);
    return std::string(data, size);
}

class PlanJson : public testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(Plans, PlanJson, testing::ValuesIn(kPlans),
                         testing::PrintToStringParamName());

TEST_P(PlanJson, is_the_one_that_was_reviewed) {
    const Scene scene = scene_of(GetParam());
    const std::string text = text_of(scene, planner_of(scene), PlanView::Transfers);
    const std::string path =
        WEIGHTLIFT_SOURCE_DIR "/tests/golden/plans/" + std::string(GetParam().name) + ".json";
    if (std::getenv("WEIGHTLIFT_REGENERATE_GOLDEN") != nullptr) {
        std::ofstream(path) << text;
        GTEST_SKIP() << "wrote " << path;
    }
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    std::istringstream now(text);
    std::string expected, got;
    for (int line = 1; std::getline(file, expected); ++line) {
        ASSERT_TRUE(std::getline(now, got)) << "ends before line " << line << " of " << path;
        ASSERT_EQ(got, expected) << path << ':' << line;
    }
    EXPECT_FALSE(std::getline(now, got)) << "goes on after the end of " << path;
}

/// An object has exactly these members.
void expect_members(const json& object, std::vector<std::string> names) {
    std::vector<std::string> members;
    for (const auto& [name, value] : object.items()) members.push_back(name);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(members, names) << object.dump();
}

void expect_endpoint(const json& end, bool is_rollout, Rank first, Rank last) {
    if (is_rollout)
        expect_members(end,
                       {"rank", "engine", "engine_rank", "buffer", "parameter", "offset", "pitch"});
    else
        expect_members(end, {"rank", "buffer", "parameter", "offset", "pitch"});
    EXPECT_GE(end["rank"].get<Rank>(), first);
    EXPECT_LT(end["rank"].get<Rank>(), last);
    EXPECT_EQ(end["buffer"], "weights");
    EXPECT_TRUE(end["parameter"].is_string());
    EXPECT_TRUE(end["offset"].is_number_unsigned());
    EXPECT_TRUE(end["pitch"].is_number_unsigned());
}

void expect_header(const json& plan, const Scene& scene) {
    expect_members(
        plan, {"schema", "digest", "model", "trainer", "rollout", "bytes", "steps", "padding"});
    EXPECT_EQ(plan["schema"], "weightlift-plan/1");
    EXPECT_EQ(plan["digest"].get<std::string>().size(), 16U);
    EXPECT_EQ(plan["model"]["name"], scene.model.name());
    EXPECT_EQ(plan["model"]["parameters"], scene.model.parameter_count());
    EXPECT_EQ(plan["model"]["bytes"], scene.model.bytes());
    EXPECT_EQ(plan["trainer"]["world_size"], scene.trainer.world_size());
    EXPECT_EQ(plan["rollout"]["world_size"], scene.rollout.world_size());
    EXPECT_EQ(plan["rollout"]["engines"], 1);
    ASSERT_EQ(plan["steps"].size(), 1U);
    EXPECT_EQ(plan["steps"][0]["name"], "push");
}

TEST_P(PlanJson, has_the_documented_schema) {
    const Scene scene = scene_of(GetParam());
    const auto planner = planner_of(scene);
    const json plan = json::parse(text_of(scene, planner, PlanView::Transfers));
    expect_header(plan, scene);
    Bytes bytes = 0;
    for (const json& t : plan["steps"][0]["transfers"]) {
        expect_members(t, {"tensor", "box", "src", "dst", "rows", "row_bytes"});
        expect_endpoint(t["src"], false, 0, planner.trainers());
        expect_endpoint(t["dst"], true, planner.trainers(), planner.world_size());
        EXPECT_EQ(t["dst"]["rank"].get<Rank>(),
                  planner.trainers() + t["dst"]["engine_rank"].get<Rank>());
        const auto& spec = scene.model.tensor(scene.model.id(t["tensor"].get<std::string>()));
        // Half-open, in elements of the logical tensor, one pair per dimension.
        ASSERT_EQ(t["box"].size(), static_cast<std::size_t>(spec.dimensions));
        const auto length = [](const json& side) {
            return side[1].get<std::uint64_t>() - side[0].get<std::uint64_t>();
        };
        const std::uint64_t rows = spec.dimensions == 2 ? length(t["box"][0]) : 1;
        EXPECT_EQ(t["rows"], rows);
        EXPECT_EQ(t["row_bytes"], length(t["box"].back()) * element_bytes(spec.dtype));
        bytes += rows * t["row_bytes"].get<Bytes>();
    }
    EXPECT_EQ(plan["bytes"], bytes);
    Bytes padding = 0, declared = 0;
    for (const json& pad : plan["padding"]) {
        expect_members(pad, {"rank", "parameter", "offset", "pitch", "rows", "row_bytes"});
        padding += pad["rows"].get<Bytes>() * pad["row_bytes"].get<Bytes>();
    }
    for (const auto& parameter : scene.rollout.parameters())
        for (const auto& pad : parameter.padding)
            declared += pad.rows * pad.row_bytes * scene.rollout.rank_set(parameter.ranks).size();
    EXPECT_GT(padding, 0U) << "a vocabulary of 120 is padded to 128";
    EXPECT_EQ(padding, declared);
}

TEST_P(PlanJson, merged_moves_the_same_bytes_in_fewer_copies) {
    const Scene scene = scene_of(GetParam());
    const auto planner = planner_of(scene);
    const json plan = json::parse(text_of(scene, planner, PlanView::Transfers));
    const json merged = json::parse(text_of(scene, planner, PlanView::Merged));
    expect_header(merged, scene);
    EXPECT_EQ(merged["digest"], plan["digest"]);
    const auto& transfers = plan["steps"][0]["transfers"];
    const auto& copies = merged["steps"][0]["transfers"];
    EXPECT_LT(copies.size(), transfers.size());
    Bytes bytes = 0;
    for (const json& c : copies) {
        expect_members(c, {"src", "dst", "rows", "row_bytes"});
        expect_endpoint(c["src"], false, 0, planner.trainers());
        expect_endpoint(c["dst"], true, planner.trainers(), planner.world_size());
        bytes += c["rows"].get<Bytes>() * c["row_bytes"].get<Bytes>();
    }
    EXPECT_EQ(bytes, plan["bytes"].get<Bytes>());
}

TEST(PlanJson, escapes_the_names_of_foreign_layouts) {
    std::vector<model::TensorSpec> tensors{{"a \"quoted\"\\name\n", DType::BF16, 1, 1, 4}};
    model::ModelSpec model("model \"x\"", std::move(tensors), std::nullopt);
    const auto make = [&](layout::Side side) {
        layout::LayoutBuilder builder(side, "by \"hand\"", 1);
        if (side == layout::Side::Rollout) builder.begin_engine(0);
        layout::Parameter p;
        p.name = "p\t\"1\"";
        p.shape = {{4, 0, 0}, 1};
        p.pieces = {{0, {{0, 1}, {0, 4}}, 0, 8}};
        p.ranks = builder.rank_set({0});
        builder.add(std::move(p));
        return std::move(builder).finish(model);
    };
    auto trainer = make(layout::Side::Trainer);
    auto rollout = make(layout::Side::Rollout);
    const Scene scene{std::move(model), std::move(trainer), std::move(rollout), {}};
    const auto planner = planner_of(scene);
    for (const PlanView view : {PlanView::Transfers, PlanView::Merged}) {
        const json plan = json::parse(text_of(scene, planner, view));
        const json& only = plan["steps"][0]["transfers"].at(0);
        EXPECT_EQ(only["src"]["parameter"], "p\t\"1\"");
        EXPECT_EQ(plan["model"]["name"], "model \"x\"");
    }
}

}  // namespace
}  // namespace weightlift::app
