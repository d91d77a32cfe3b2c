#include "chunks.hpp"

#include <algorithm>

#include "weightlift/plan/copy.hpp"

namespace weightlift::plan::steps {

namespace {

/// Less is not worth a message of its own.
constexpr Bytes kSmallestChunk = 64 * KiB;

}  // namespace

Chunks::Chunks(Bytes bytes, std::uint64_t seats, Bytes chunk, std::uint64_t rotation)
    : bytes_(bytes), seats_(seats), rotation_(rotation % seats) {
    const Bytes least = std::min(chunk, kSmallestChunk);
    if (bytes >= least * seats) {
        count_ = round_up(ceil_div(bytes, chunk), seats);
    } else {
        count_ = std::max<std::uint64_t>(1, bytes / least);
        stride_ = seats / count_;
    }
}

Bytes Chunks::begin(std::uint64_t chunk) const {
    if (chunk == count_) return bytes_;
    const auto exact = static_cast<Bytes>(static_cast<unsigned __int128>(bytes_) * chunk / count_);
    return exact / kArenaAlignment * kArenaAlignment;
}

std::uint64_t Chunks::at(Bytes address) const {
    auto chunk =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(address) * count_ / bytes_);
    while (chunk + 1 < count_ && begin(chunk + 1) <= address) ++chunk;
    while (begin(chunk) > address) --chunk;
    return chunk;
}

}  // namespace weightlift::plan::steps
