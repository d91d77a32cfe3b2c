#include "app/catalog.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/cluster_file.hpp"
#include "unit/layout/refused.hpp"

namespace weightlift::app {
namespace {

TEST(ModelName, is_that_of_the_file_or_of_its_folder) {
    struct Row {
        const char *given, *name;
    };
    for (const Row& row :
         {Row{"moonlight-16b-a3b", "moonlight-16b-a3b"}, Row{"glm-4.5-air", "glm-4.5-air"},
          Row{"path/to/moonlight-16b-a3b.json", "moonlight-16b-a3b"},
          Row{"models/Qwen3-4B/config.json", "Qwen3-4B"}, Row{"models/Qwen3-4B/", "Qwen3-4B"},
          Row{"models/Qwen3-4B", "Qwen3-4B"}, Row{"glm-4.5.json", "glm-4.5"},
          Row{"config.json", "config"}})
        EXPECT_EQ(model_name(row.given), row.name) << row.given;
}

TEST(Catalog, holds_the_shipped_models_byte_by_byte) {
    for (const auto& entry :
         std::filesystem::directory_iterator(WEIGHTLIFT_SOURCE_DIR "/jobs/models")) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        EXPECT_EQ(model_text(model_name(entry.path().string())), text) << entry.path();
        EXPECT_TRUE(nlohmann::json::accept(text)) << entry.path();
    }
}

TEST(Catalog, holds_clusters_that_parse) {
    for (const auto& entry :
         std::filesystem::directory_iterator(WEIGHTLIFT_SOURCE_DIR "/jobs/clusters")) {
        const auto name = entry.path().stem().string();
        EXPECT_EQ(load_cluster(name).name, name);
    }
}

TEST(ParseCluster, reads_toml) {
    const sim::Cluster c = parse_cluster(
        "# ours\nname = \"two words\"\nranks_per_node = 4  # of 8\nports_per_node = 2\n"
        "port_gbytes_per_s = 12.5\nport_messages_per_s = 15e6\n");
    EXPECT_EQ(c.name, "two words");
    EXPECT_EQ(c.ranks_per_node, 4);
    EXPECT_EQ(c.port_rate, 12.5e9);
    EXPECT_EQ(c.port_message_rate, 15e6);
}

TEST(ParseCluster, refuses_what_is_not_a_field_with_a_value) {
    EXPECT_REFUSAL(parse_cluster("{\"name\": \"json\"}").name, "cluster: line 1: ");
    EXPECT_REFUSAL(parse_cluster("").name, "cluster: field name is missing");
    EXPECT_REFUSAL(parse_cluster("name = [\"a\", \"b\"]").name,
                   "cluster: name takes one value, and is given 2");
    EXPECT_REFUSAL(parse_cluster("[ports]\nname = \"a\"").name, "cluster: [ports]");
    EXPECT_REFUSAL(parse_cluster("name = \"a\"\nname = \"b\"").name, "name is there twice");
}

TEST(Catalog, suggests_the_nearest_of_the_names_it_has) {
    EXPECT_REFUSAL(model_text("qwen3-4"),
                   "--model qwen3-4: there is no such file, nor a shipped model of that name, did "
                   "you mean 'qwen3-4b'?");
    EXPECT_REFUSAL(model_text("no-such-model-at-all"), "tiny-deepseek");
    EXPECT_REFUSAL(cluster_text("h100-ib40"), "did you mean 'h100-ib400'?");
}

TEST(ReadText, names_the_path_and_the_reason) {
    EXPECT_REFUSAL(read_text("/no/such/file.json"),
                   "cannot read /no/such/file.json: No such file or directory");
    EXPECT_REFUSAL(read_text("/tmp"), "cannot read /tmp: it is a folder");
}

TEST(ReadText, leaves_an_empty_file_to_its_parser) {
    const auto empty = testing::TempDir() + "weightlift-empty.json";
    std::ofstream(empty).close();
    EXPECT_EQ(read_text(empty), "");
    std::filesystem::remove(empty);
}

}  // namespace
}  // namespace weightlift::app
