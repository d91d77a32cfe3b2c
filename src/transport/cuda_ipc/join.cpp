#include "join.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace weightlift::transport::cuda_ipc {
namespace {

/// How far ahead the second row is looked for: parameters of one size in a layer.
constexpr std::size_t kAhead = 64;
/// Shorter runs than this are left as they are.
constexpr std::size_t kFewest = 3;

/// Copies of one length to one destination, by source offset.
class Evens {
public:
    Evens(const std::vector<plan::Copy>& copies, std::vector<std::size_t> members, Bytes max_pitch)
        : copies_(copies), members_(std::move(members)), max_pitch_(max_pitch) {
        std::sort(members_.begin(), members_.end(), [&](std::size_t a, std::size_t b) {
            return std::pair(copies_[a].src_offset, copies_[a].dst_offset) <
                   std::pair(copies_[b].src_offset, copies_[b].dst_offset);
        });
        for (std::size_t i = 0; i < members_.size(); ++i)
            places_.emplace(std::pair(at(i).src_offset, at(i).dst_offset), i);
        is_taken_.resize(members_.size());
    }

    /// Calls visit(indices into the copies, source pitch, destination pitch) for each run.
    template <class Visit>
    void for_each_run(Visit visit) {
        for (std::size_t i = 0; i < members_.size(); ++i) {
            if (is_taken_[i]) continue;
            const auto [src_pitch, dst_pitch, length] = longest_from(i);
            if (length < kFewest) continue;
            std::vector<std::size_t> run;
            for (std::size_t n = 0, next = i; n < length; ++n) {
                is_taken_[next] = true;
                run.push_back(members_[next]);
                next = find(next, src_pitch, dst_pitch);
            }
            visit(run, src_pitch, dst_pitch);
        }
    }

private:
    [[nodiscard]] const plan::Copy& at(std::size_t i) const { return copies_[members_[i]]; }
    /// members_.size() where there is none.
    [[nodiscard]] std::size_t find(std::size_t i, Bytes src_pitch, Bytes dst_pitch) const {
        const auto place =
            places_.find({at(i).src_offset + src_pitch, at(i).dst_offset + dst_pitch});
        return place == places_.end() || is_taken_[place->second] ? members_.size() : place->second;
    }
    struct Run {
        Bytes src_pitch = 0, dst_pitch = 0;
        std::size_t length = 1;
    };
    [[nodiscard]] Run longest_from(std::size_t i) const {
        Run best;
        for (std::size_t j = i + 1; j < std::min(members_.size(), i + 1 + kAhead); ++j) {
            const Bytes row = at(i).row_bytes;
            if (is_taken_[j] || at(j).dst_offset < at(i).dst_offset) continue;
            const Bytes src_pitch = at(j).src_offset - at(i).src_offset;
            const Bytes dst_pitch = at(j).dst_offset - at(i).dst_offset;
            if (src_pitch < row || dst_pitch < row || src_pitch > max_pitch_ ||
                dst_pitch > max_pitch_)
                continue;
            std::size_t length = 2;
            for (std::size_t n = j; (n = find(n, src_pitch, dst_pitch)) != members_.size();)
                ++length;
            if (length > best.length) best = {src_pitch, dst_pitch, length};
        }
        return best;
    }

    const std::vector<plan::Copy>& copies_;
    std::vector<std::size_t> members_;
    std::map<std::pair<Bytes, Bytes>, std::size_t> places_;
    std::vector<bool> is_taken_;
    Bytes max_pitch_;
};

}  // namespace

std::vector<plan::Copy> join_even_copies(std::vector<plan::Copy> copies, Bytes max_row,
                                         Bytes max_pitch) {
    std::map<std::pair<std::uint32_t, Bytes>, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < copies.size(); ++i)
        if (copies[i].rows == 1 && copies[i].row_bytes > 0 && copies[i].row_bytes <= max_row)
            groups[{copies[i].destination, copies[i].row_bytes}].push_back(i);
    std::vector<bool> is_gone(copies.size());
    for (auto& [key, members] : groups) {
        if (members.size() < kFewest) continue;
        Evens evens(copies, std::move(members), max_pitch);
        std::vector<std::tuple<std::vector<std::size_t>, Bytes, Bytes>> runs;
        evens.for_each_run([&](std::vector<std::size_t> run, Bytes src_pitch, Bytes dst_pitch) {
            runs.emplace_back(std::move(run), src_pitch, dst_pitch);
        });
        for (const auto& [run, src_pitch, dst_pitch] : runs) {
            plan::Copy joined = copies[run.front()];
            joined.rows = run.size();
            joined.src_pitch = src_pitch;
            joined.dst_pitch = dst_pitch;
            for (const std::size_t i : run) is_gone[i] = true;
            const std::size_t first = *std::min_element(run.begin(), run.end());
            is_gone[first] = false;
            copies[first] = joined;
        }
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < copies.size(); ++i)
        if (!is_gone[i]) copies[kept++] = copies[i];
    copies.resize(kept);
    return copies;
}

}  // namespace weightlift::transport::cuda_ipc
