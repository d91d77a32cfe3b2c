// What a transport can do, and how: declared by each backend, never found out by an error.
#pragma once

#include <cstdint>
#include <limits>

#include "weightlift/base/bytes.hpp"
#include "weightlift/plan/copy.hpp"

namespace weightlift::transport {

enum class Ordering : std::uint8_t { PerChannel, None };
enum class Notify : std::uint8_t { LastPerChannel, EveryMessage };

struct Capabilities {
    bool host_memory = false;
    bool cuda_memory = false;
    bool same_host_only = false;
    bool one_sided = false;
    bool needs_target_progress = false;  ///< the destination must call test() for bytes to move
    bool one_rank_per_gpu = false;
    bool broadcasts = false;      ///< has an operation for what goes to several alike
    bool remote_scatter = false;  ///< a strided destination costs no more than a contiguous one
    Ordering ordering = Ordering::None;
    Notify notify = Notify::LastPerChannel;
    int imm_bits = 0;
    int max_sge = 1;
    Bytes max_message = std::numeric_limits<Bytes>::max();
    /// Bytes of a turn at one destination, in the rotated order: less costs this backend more than
    /// it saves at the receivers.
    Bytes turn = plan::kRotationChunk;
};

}  // namespace weightlift::transport
