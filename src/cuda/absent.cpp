// What a build without CUDA knows of GPUs.
#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/cuda/copy.hpp"
#include "weightlift/cuda/device.hpp"

namespace weightlift::cuda {

const std::vector<Device>& devices() {
    static const std::vector<Device> none;
    return none;
}

std::string why_no_devices() {
    return "this build has no CUDA: configure with -DWEIGHTLIFT_WITH_CUDA=ON where nvcc is "
           "installed";
}

std::string device_label(int ordinal) { return fmt::format("GPU {}", ordinal); }

Bytes free_memory(int ordinal) {
    throw ConfigError(fmt::format("{}: {}", device_label(ordinal), why_no_devices()));
}

DeviceGuard::DeviceGuard(int ordinal) {
    throw ConfigError(fmt::format("{}: {}", device_label(ordinal), why_no_devices()));
}
DeviceGuard::~DeviceGuard() = default;

namespace {
[[noreturn]] void fail() { throw ConfigError(why_no_devices()); }
}  // namespace

Stream::Stream() { fail(); }
Stream::~Stream() = default;
void Stream::synchronize() const { fail(); }
void Stream::wait(const Event&) const { fail(); }
Event::Event(Timing) { fail(); }
Event::~Event() = default;
void Event::record(const Stream&) const { fail(); }
bool Event::is_done() const { fail(); }
void Event::synchronize() const { fail(); }
Pinned::Pinned(std::byte* at, Bytes) : at_(at) { fail(); }
Pinned::~Pinned() = default;
void copy_rows(const Stream&, std::byte*, Bytes, const std::byte*, Bytes, std::uint64_t, Bytes) {
    fail();
}

}  // namespace weightlift::cuda
