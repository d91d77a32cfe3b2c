// What a user may ask of a transport. Values only; a transport ignores what is not its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weightlift/base/bytes.hpp"

namespace weightlift::transport {

enum class Rows : std::uint8_t { Auto, Direct, Gather, Pack, Unpack };
/// What tests make a rank do wrong: tell keys that open nothing, or register less than it says.
enum class VerbsFault : std::uint8_t { None, WrongKey, ShortRegion };
enum class Registration : std::uint8_t { Auto, DmaBuf, PeerMem };

/// Options of `verbs`.
struct VerbsOptions {
    std::vector<std::string> nics;  ///< device names, "mlx5_0" or "mlx5_0:2"; empty: the nearest
    int gid_index = -1;             ///< -1: chosen by choose_gid
    int qps = 0;                    ///< per peer and rail; 0: by the number of peers
    Bytes chunk = 0;                ///< most bytes of a work request; 0: 1 MiB
    int depth = 0;                  ///< work requests outstanding per queue pair; 0: 256
    int service_level = 0, traffic_class = 0, pkey_index = 0;
    int retry_count = 6;     ///< 0 … 7; Soft-RoCE takes 7 as for ever
    int retry_timeout = 18;  ///< local ACK timeout: 4.096 us × 2^n
    bool relaxed_ordering = true;
    Bytes region_bytes = 0;  ///< most bytes of a memory region; 0: the device's limit
    Registration registration = Registration::Auto;
    Rows rows = Rows::Auto;
    Bytes staging_limit = 2 * GiB;        ///< per rank, for packed and unpacked rows
    VerbsFault fault = VerbsFault::None;  ///< tests only
};

/// How long ranges travel. Put: one-sided, without a streaming multiprocessor.
enum class NcclMode : std::uint8_t { SendRecv, Put };

/// Options of `nccl`.
struct NcclOptions {
    NcclMode mode = NcclMode::SendRecv;
};

}  // namespace weightlift::transport
