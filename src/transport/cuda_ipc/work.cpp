#include "work.hpp"

#include <algorithm>

#include "../strided.hpp"
#include "join.hpp"

namespace weightlift::transport::cuda_ipc {
namespace {

/// Of longer ones an engine loses nothing by taking them one by one.
constexpr Bytes kMaxRow = 64 * MiB;

class Engines {
public:
    Engines(const SplitRules& rules, Work& work) : rules_(rules), work_(work) {}

    void add(const plan::Copy& copy) {
        if (copy.rows == 1) {
            for (Bytes at = 0; at < copy.row_bytes; at += rules_.op_bytes) {
                const Bytes n = std::min(rules_.op_bytes, copy.row_bytes - at);
                post({copy.destination, copy.src_offset + at, n, copy.dst_offset + at, n, 1, n});
            }
            return;
        }
        const std::uint64_t step = std::max<std::uint64_t>(1, rules_.op_bytes / copy.row_bytes);
        for (std::uint64_t row = 0; row < copy.rows; row += step) {
            plan::Copy part = copy;
            part.src_offset += row * copy.src_pitch;
            part.dst_offset += row * copy.dst_pitch;
            part.rows = std::min(step, copy.rows - row);
            post(part);
        }
    }

private:
    void post(const plan::Copy& op) {
        const bool is_new = work_.batches.empty() || work_.batches.back().is_kernel ||
                            work_.batches.back().destination != op.destination ||
                            work_.batches.back().count == rules_.batch_ops ||
                            work_.batches.back().bytes >= rules_.batch_bytes;
        if (is_new)
            work_.batches.push_back(
                {.destination = op.destination, .is_kernel = false, .first = work_.ops.size()});
        ++work_.batches.back().count;
        work_.batches.back().bytes += op.bytes();
        work_.ops.push_back(op);
    }

    const SplitRules& rules_;
    Work& work_;
};

}  // namespace

Work split_copies(std::span<const plan::Copy> copies, std::size_t destinations,
                  const SplitRules& rules) {
    Work work;
    std::vector<std::vector<Piece>> pieces(destinations);
    std::vector<plan::Copy> joined, large;
    for (const plan::Copy& copy : copies)
        if (copy.bytes() > 0) joined.push_back(join_rows(copy));
    joined =
        join_even_copies(std::move(joined), std::min(kMaxRow, rules.op_bytes), rules.max_pitch);
    for (const plan::Copy& copy : joined) {
        const bool is_short = copy.rows > 1 && copy.row_bytes < rules.short_row;
        const bool is_wide =
            copy.rows > 1 && std::max(copy.src_pitch, copy.dst_pitch) > rules.max_pitch;
        if (copy.bytes() < rules.small || is_short || is_wide)
            cut_into_pieces(copy, pieces[copy.destination]);
        else
            large.push_back(copy);
    }
    for (std::size_t d = 0; d < destinations; ++d) {
        if (pieces[d].empty()) continue;
        Batch& batch = work.batches.emplace_back(Batch{.destination = static_cast<std::uint32_t>(d),
                                                       .is_kernel = true,
                                                       .first = work.pieces.size(),
                                                       .count = pieces[d].size()});
        for (const Piece& piece : pieces[d]) batch.bytes += Bytes{piece.rows} * piece.row_bytes;
        work.pieces.insert(work.pieces.end(), pieces[d].begin(), pieces[d].end());
    }
    Engines engines(rules, work);
    for (const plan::Copy& copy : large) engines.add(copy);
    return work;
}

Work split_segments(std::span<const plan::Copy> copies, std::span<const Segment> segments,
                    std::size_t destinations, const SplitRules& rules) {
    if (segments.empty()) return split_copies(copies, destinations, rules);
    Work work;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Work next =
            split_copies(copies.subspan(begin, segments[i].end - begin), destinations, rules);
        begin = segments[i].end;
        for (Batch batch : next.batches) {
            batch.first += batch.is_kernel ? work.pieces.size() : work.ops.size();
            batch.needs = i + 1;
            work.batches.push_back(batch);
        }
        work.ops.insert(work.ops.end(), next.ops.begin(), next.ops.end());
        work.pieces.insert(work.pieces.end(), next.pieces.begin(), next.pieces.end());
    }
    return work;
}

}  // namespace weightlift::transport::cuda_ipc
