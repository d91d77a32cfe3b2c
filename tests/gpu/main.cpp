// Skipped tests count as passed for GoogleTest; ctest must see that none of them ran.
#include <cstdio>

#include <gtest/gtest.h>

#include "weightlift/cuda/device.hpp"

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const int result = RUN_ALL_TESTS();
    constexpr int kSkipped = 77;
    const std::string why = weightlift::cuda::why_no_devices();
    if (!why.empty()) std::printf("skipped: %s\n", why.c_str());
    return result == 0 && !why.empty() ? kSkipped : result;
}
