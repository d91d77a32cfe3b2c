// What a push is asked to do. Values only; parsing is the app's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "weightlift/base/bytes.hpp"
#include "weightlift/memory/registry.hpp"
#include "weightlift/plan/steps.hpp"
#include "weightlift/transport/options.hpp"

namespace weightlift::session {

enum class Verify : std::uint8_t { None, Fingerprint, Full };
enum class Order : std::uint8_t { Plan, Rotated };

/// Faults that tests ask for (--inject); absent in real runs.
struct Injection {
    std::optional<std::pair<int, Bytes>>
        flip;                ///< invert arena byte of this MPI rank before the check
    std::uint64_t drop = 0;  ///< leave out that many copies of the first sender
    std::optional<std::pair<int, std::chrono::milliseconds>> delay;  ///< this MPI rank starts late
    std::optional<std::pair<int, std::uint64_t>> kill;  ///< this MPI rank kills itself in push N
    std::optional<int> wrong_key;     ///< this MPI rank tells keys that open nothing (verbs)
    std::optional<int> short_region;  ///< this MPI rank registers less than it has (verbs)
};

struct PushOptions {
    plan::Strategy strategy = plan::Strategy::Direct;
    std::string transport = "auto";  ///< auto, or a name of transport_names()
    memory::MemoryKind memory = memory::MemoryKind::Host;
    memory::DeviceMemory device_memory = memory::DeviceMemory::Malloc;
    std::optional<int> gpu;  ///< ordinal of this rank's; absent: by its number on the node
    Order order = Order::Rotated;
    Bytes window = 64 * MiB;  ///< most bytes outstanding per destination
    Bytes minimum_slice = 256 * KiB;
    Bytes staging_limit = 2 * GiB;  ///< per rank, of strategies that stage
    int trainer_stages = 1;         ///< pipeline stages: equal blocks of trainers
    Verify verify = Verify::Fingerprint;
    std::chrono::nanoseconds timeout = std::chrono::seconds(60);  ///< per phase
    transport::VerbsOptions verbs;
    transport::NcclOptions nccl;
    Injection inject;
};

}  // namespace weightlift::session
