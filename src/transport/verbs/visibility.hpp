// From arrived to visible: what it takes until the device that owns the memory sees what NICs have
// written there.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "registered.hpp"

namespace weightlift::transport::verbs {

enum class Visibility : std::uint8_t { Nothing, Flush, LoopbackRead };
[[nodiscard]] std::string_view to_string(Visibility visibility);

/// Pure. Where NICs have two ways into the memory, a flush waits for one of them only; a read
/// through the NIC itself comes after its writes on whichever way they took.
[[nodiscard]] Visibility visibility_for(const memory::RemoteWrites& writes);

/// Queue pairs connected with themselves, one for each device in use.
class Loopback {
public:
    /// `arena` must be registered for remote reads; `scratch` is host memory of at least one byte.
    Loopback(std::vector<std::unique_ptr<Device>>& devices, const std::vector<bool>& used,
             const VerbsOptions& options, const Registered& arena, const Registered& scratch);
    /// Reads one byte through each device: number of completions to wait for, of Kind::Read.
    [[nodiscard]] std::size_t start();

private:
    struct Pair {
        int rail = 0;
        std::unique_ptr<QueuePair> pair;
    };
    std::vector<Pair> pairs_;
    const Registered& arena_;
    const Registered& scratch_;
};

}  // namespace weightlift::transport::verbs
