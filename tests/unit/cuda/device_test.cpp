#include "weightlift/cuda/device.hpp"

#include <gtest/gtest.h>

#include "weightlift/base/error.hpp"

namespace weightlift::cuda {
namespace {

TEST(ChooseDevice, goes_round_the_visible_devices) {
    struct Row {
        const char* name;
        int local_rank, visible, expected;
    };
    for (const Row& row : {Row{"first of two", 0, 2, 0}, Row{"second of two", 1, 2, 1},
                           Row{"more ranks than devices", 5, 2, 1}, Row{"one each", 7, 8, 7},
                           Row{"a task that sees one", 7, 1, 0}})
        EXPECT_EQ(choose_device(row.local_rank, row.visible), row.expected) << row.name;
}

TEST(ChooseDevice, refuses_where_none_is_visible) {
    try {
        (void)choose_device(3, 0);
        FAIL() << "chose a device that is not there";
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find("local rank 3 sees no GPU"), std::string::npos);
    }
}

TEST(Devices, are_there_or_a_reason_is) {
    EXPECT_EQ(devices().empty(), !why_no_devices().empty());
    for (const Device& device : devices()) {
        EXPECT_EQ(device.uuid.size(), 40U) << device.uuid;
        EXPECT_EQ(device.pci.size(), 12U) << device.pci;
        EXPECT_GT(device.memory, 0U);
        EXPECT_GT(device.multiprocessors, 0);
    }
}

TEST(DeviceGuard, refuses_a_device_that_is_not_there) {
    const int beyond = static_cast<int>(devices().size());
    EXPECT_THROW(DeviceGuard{beyond}, ConfigError);
    EXPECT_THROW((void)free_memory(beyond), ConfigError);
}

}  // namespace
}  // namespace weightlift::cuda
