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

}  // namespace
}  // namespace weightlift::app
