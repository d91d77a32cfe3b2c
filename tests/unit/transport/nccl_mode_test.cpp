#include <gtest/gtest.h>

#include "weightlift/transport/registry.hpp"

namespace weightlift::transport {
namespace {

/// What making the transport says; empty: it is made. Needs no GPU.
std::string refusal(memory::DeviceMemory method) {
    Context context;
    context.nccl.mode = NcclMode::Put;
    context.cuda.method = method;
    try {
        (void)make_transport("nccl", context);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return {};
}

TEST(NcclMode, put_is_refused_where_memory_cannot_be_mapped_elsewhere_or_nccl_is_too_old) {
    const std::string said = refusal(memory::DeviceMemory::Malloc);
    EXPECT_TRUE(said.find("--device-memory vmm") != std::string::npos ||
                said.find("needs NCCL 2.29 or newer; this build has 2.") != std::string::npos)
        << said;
}

}  // namespace
}  // namespace weightlift::transport
