#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {
namespace {

namespace fs = std::filesystem;

TEST(ListNics, agrees_with_the_kernel) {
    const fs::path classes = "/sys/class/infiniband";
    for (const Nic& nic : list_nics()) EXPECT_TRUE(fs::exists(classes / nic.name)) << nic.name;
    if (!fs::exists(classes)) {
        EXPECT_TRUE(list_nics().empty());
        EXPECT_NE(why_no_nics().find("no /sys/class/infiniband"), std::string::npos);
    }
}

struct Row {
    const char* name;
    std::vector<std::string> folders;
    std::vector<std::string> files;
    const char* reason;
    const char* remedy;
};

TEST(WhyNoNics, names_what_is_missing_first) {
    const Row rows[] = {
        {"kernel without RDMA", {"sys/class/net"}, {}, "no /sys/class/infiniband", "mlx5_ib"},
        {"RDMA core, no device", {"sys/class/infiniband"}, {}, "is empty", "rdma link add"},
        {"container without the device files",
         {"sys/class/infiniband/mlx5_0"},
         {},
         "mlx5_0 is there, but /dev/infiniband/uverbs* is not",
         "--device=/dev/infiniband"},
        {"device files without uverbs",
         {"sys/class/infiniband/mlx5_0"},
         {"dev/infiniband/rdma_cm"},
         "/dev/infiniband/uverbs* is not",
         "ib_uverbs"},
        {"a device file that this user may not open (a folder nobody may)",
         {"sys/class/infiniband/mlx5_0", "dev/infiniband/uverbs0"},
         {},
         "/dev/infiniband/uverbs0 cannot be opened (Is a directory)",
         "permission"},
        {"no driver library",
         {"sys/class/infiniband/mlx5_0"},
         {"dev/infiniband/uverbs0"},
         "no driver for mlx5_0",
         "ibverbs-providers"},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        const fs::path root = fs::path(testing::TempDir()) / "weightlift_why";
        fs::remove_all(root);
        for (const auto& folder : row.folders) fs::create_directories(root / folder);
        for (const auto& file : row.files) {
            fs::create_directories((root / file).parent_path());
            std::ofstream(root / file) << "";
        }
        const std::string why = why_no_nics(root.string());
        EXPECT_NE(why.find(row.reason), std::string::npos) << why;
        EXPECT_NE(why.find(row.remedy), std::string::npos) << why;
        fs::remove_all(root);
    }
}

}  // namespace
}  // namespace weightlift::transport
