// From copies to work requests: pure functions, so that both ends and the tests agree on them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::verbs {

/// One RDMA WRITE: `rows` rows of `row_bytes` here, one after the other at `dst_offset` there. None
/// where it is the signal of a segment.
struct Request {
    std::uint32_t destination = 0;
    bool is_packed = false;  ///< rows are copied into staging here and leave as one piece
    bool is_parcel = false;  ///< they arrive in the peer's staging, which cuts them out
    bool is_signal = false;  ///< all that was sent before it is a segment, or several
    Bytes src_offset = 0, src_pitch = 0;
    Bytes dst_offset = 0, dst_pitch = 0;  ///< pitch: of a parcel's rows in the region
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;
    [[nodiscard]] Bytes bytes() const { return rows * row_bytes; }
    /// Scatter/gather entries it takes.
    [[nodiscard]] std::uint64_t pieces() const {
        if (is_signal) return 0;
        return is_packed || src_pitch == row_bytes ? 1 : rows;
    }
    friend bool operator==(const Request&, const Request&) = default;
};

/// What both ends allow.
struct CutRules {
    Bytes chunk = MiB;            ///< most bytes of a request
    std::uint64_t sge = 1;        ///< most rows gathered by one request
    Bytes slot = 0;               ///< most bytes of a packed request or parcel; 0: none of either
    Bytes src_piece = ~Bytes{0};  ///< this rank's region is registered in pieces of that many bytes
    std::vector<Bytes> dst_piece;  ///< by destination; no request crosses a border
    /// Whether rows of that many bytes are better packed here, or unpacked there.
    std::function<bool(Bytes row_bytes)> packs = [](Bytes) { return false; };
    std::function<bool(Bytes row_bytes)> unpacks = [](Bytes) { return false; };
};

/// In the copies' order; every byte once, no request without bytes.
[[nodiscard]] std::vector<Request> cut_copies(std::span<const Copy> copies, const CutRules& rules);

/// Deals requests to channels so that their loads stay in proportion to their rates: for each
/// request the index of its channel. `channels[d]` are the rates of destination d's channels; a
/// rate of 0 counts as 1.
[[nodiscard]] std::vector<std::uint32_t> deal_requests(
    std::span<const Request> requests, std::span<const std::vector<double>> channels);

}  // namespace weightlift::transport::verbs
