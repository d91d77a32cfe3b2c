#include "app/inputs.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "weightlift/layout/layout_file.hpp"

#include "unit/layout/refused.hpp"

namespace weightlift::app {
namespace {

SceneOptions tiny() {
    SceneOptions options;
    options.model = "tiny-deepseek";
    options.layers = 2;
    options.trainer = "tp=2";
    options.rollouts = {"tp=4"};
    return options;
}

/// A file that is gone when the test ends.
class TextFile {
public:
    TextFile(const char* name, const std::string& text) : path_(testing::TempDir() + name) {
        std::ofstream(path_) << text;
    }
    ~TextFile() { std::filesystem::remove(path_); }
    TextFile(const TextFile&) = delete;
    TextFile& operator=(const TextFile&) = delete;
    [[nodiscard]] std::string argument() const { return "@" + path_; }

private:
    std::string path_;
};

TEST(LoadScene, makes_model_and_layouts_from_rules) {
    const Scene scene = load_scene(tiny());
    EXPECT_EQ(scene.model.name(), "tiny-deepseek");
    EXPECT_EQ(scene.trainer.world_size(), 2);
    EXPECT_EQ(scene.rollout.world_size(), 4);
    EXPECT_EQ(scene.trainer.description(), "tp=2");
}

TEST(LoadScene, makes_the_same_scene_from_layout_files_with_and_without_a_model) {
    const Scene rules = load_scene(tiny());
    const TextFile trainer("weightlift-trainer.json",
                           layout::emit_layout(rules.trainer, rules.model));
    const TextFile rollout("weightlift-rollout.json",
                           layout::emit_layout(rules.rollout, rules.model));
    SceneOptions options = tiny();
    options.trainer = trainer.argument();
    options.rollouts = {rollout.argument()};
    const Scene with_model = load_scene(options);
    EXPECT_EQ(with_model.trainer.digest(), rules.trainer.digest());
    EXPECT_EQ(with_model.rollout.digest(), rules.rollout.digest());
    options.model = "";
    options.layers = {};
    const Scene alone = load_scene(options);
    EXPECT_EQ(alone.trainer.digest(), rules.trainer.digest());
    EXPECT_EQ(alone.model.bytes(), rules.model.bytes());

    std::swap(options.trainer, options.rollouts.front());
    EXPECT_REFUSAL(load_scene(options).notes.size(), "the file describes a trainer");
}

TEST(LoadScene, counts_the_trainers_of_dp_auto_from_the_launched_ranks) {
    SceneOptions options = tiny();
    options.trainer = "tp=2,dp=auto";
    EXPECT_EQ(load_scene(options, 12).trainer.world_size(), 8);
    EXPECT_REFUSAL(load_scene(options).notes.size(), "dp=auto needs launched ranks");
    EXPECT_REFUSAL(load_scene(options, 4).notes.size(), "launched");  // none left for trainers
    EXPECT_REFUSAL(load_scene(options, 2).notes.size(), "launched");
}

TEST(LoadScene, keeps_groups_of_rollouts_in_order) {
    SceneOptions options = tiny();
    options.rollouts = {"tp=4", "tp=2,engines=2"};
    const Scene scene = load_scene(options);
    EXPECT_EQ(scene.rollout.world_size(), 8);
    EXPECT_EQ(scene.rollout.engine_begins().size(), 3U);
}

struct Refused {
    const char* name;
    void (*change)(SceneOptions&);
    const char* message;
};

TEST(LoadScene, refuses_what_cannot_be) {
    for (const Refused& row : {
             Refused{"no trainer", [](SceneOptions& o) { o.trainer = ""; }, "--trainer is missing"},
             {"no rollout", [](SceneOptions& o) { o.rollouts = {}; }, "--rollout is missing"},
             {"no model", [](SceneOptions& o) { o.model = ""; }, "--model is missing"},
             {"unknown dtype", [](SceneOptions& o) { o.dtype = "int4"; },
              "--dtype int4: not one of bf16, fp16, fp32, fp8"},
             {"more layers than there are", [](SceneOptions& o) { o.layers = 9; }, "9"},
             {"a file beside a group",
              [](SceneOptions& o) {
                  o.rollouts = {"tp=4", "@x.json"};
              },
              "cannot stand beside other groups"},
             {"no such file", [](SceneOptions& o) { o.trainer = "@/no/such.json"; },
              "cannot read /no/such.json"},
             {"an at sign alone", [](SceneOptions& o) { o.trainer = "@"; }, "cannot read"},
             {"tp beyond the heads", [](SceneOptions& o) { o.rollouts = {"tp=32"}; }, "32"},
         }) {
        SceneOptions options = tiny();
        row.change(options);
        SCOPED_TRACE(row.name);
        EXPECT_REFUSAL(load_scene(options).notes.size(), row.message);
    }
}

SceneOptions one_tensor() {
    SceneOptions options;
    options.model = "tensor:1MiB";
    options.trainer = "tp=2,dp=2";
    options.rollouts = {"tp=4,engines=3"};
    return options;
}

TEST(LoadScene, cuts_one_tensor_by_rows_over_each_side) {
    const Scene scene = load_scene(one_tensor());
    EXPECT_EQ(scene.model.bytes(), 1 * MiB);
    EXPECT_EQ(scene.model.name(), "tensor:1MiB");
    EXPECT_EQ(scene.trainer.world_size(), 4);
    EXPECT_EQ(scene.rollout.world_size(), 12);
    const auto begins = scene.rollout.engine_begins();
    EXPECT_EQ(std::vector<Rank>(begins.begin(), begins.end()), (std::vector<Rank>{0, 4, 8}));
    for (Rank r = 0; r < 4; ++r) EXPECT_EQ(scene.trainer.bytes_of(r), 512 * KiB);
    for (Rank r = 0; r < 12; ++r) EXPECT_EQ(scene.rollout.bytes_of(r), 256 * KiB);
}

TEST(LoadScene, counts_the_trainers_of_one_tensor_from_the_launched_ranks) {
    SceneOptions options = one_tensor();
    options.trainer = "tp=2,dp=auto";
    EXPECT_EQ(load_scene(options, 18).trainer.world_size(), 6);
}

TEST(LoadScene, refuses_of_one_tensor_what_it_has_not) {
    for (const Refused& row : {
             Refused{"size", [](SceneOptions& o) { o.model = "tensor:much"; }, "--model tensor:"},
             {"nothing", [](SceneOptions& o) { o.model = "tensor:0"; }, "multiple of a row"},
             {"half a row", [](SceneOptions& o) { o.model = "tensor:2KiB"; }, "multiple of a row"},
             {"layers", [](SceneOptions& o) { o.layers = 2; }, "without --layers"},
             {"experts", [](SceneOptions& o) { o.trainer = "tp=2,ep=2,etp=1"; }, "only tp and dp"},
             {"attention", [](SceneOptions& o) { o.rollouts = {"tp=4,attn-dp=2"}; },
              "only tp and engines"},
             {"thirds", [](SceneOptions& o) { o.rollouts = {"tp=3"}; },
              "rollout tp=3 does not divide its 256 rows"},
             {"groups",
              [](SceneOptions& o) {
                  o.rollouts = {"tp=4", "tp=2"};
              },
              "one group of engines"},
         }) {
        SceneOptions options = one_tensor();
        row.change(options);
        SCOPED_TRACE(row.name);
        EXPECT_REFUSAL(load_scene(options).notes.size(), row.message);
    }
}

}  // namespace
}  // namespace weightlift::app
