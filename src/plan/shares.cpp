#include "weightlift/plan/shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weightlift::plan {

namespace {

using Wide = unsigned __int128;

constexpr std::uint32_t kWeightScale = 1U << 20;
// Chains of partly overlapping groups converge slowly; the last per cent does not matter.
constexpr int kMaxRounds = 400;
constexpr double kConverged = 1e-5;
// frac(i * golden ratio) in units of 2^-64: equidistributed for any stride of i.
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

/// Distributes group.demand over its holders so that their total loads are as level as possible,
/// given what the other groups put on them. Returns the largest change. `share` is this group's
/// part.
double refill(const HolderGroup& group, std::vector<double>& load, std::vector<double>& share,
              std::vector<double>& scratch) {
    const std::size_t n = group.holders.size();
    scratch.clear();
    for (std::size_t i = 0; i < n; ++i) {
        double& l = load[static_cast<std::size_t>(group.holders[i])];
        l -= share[i];
        scratch.push_back(l);
    }
    std::sort(scratch.begin(), scratch.end());
    // Water level: the k least loaded holders are filled up to a common height.
    double below = 0;
    double level = 0;
    for (std::size_t k = 1; k <= n; ++k) {
        below += scratch[k - 1];
        level = (group.demand + below) / static_cast<double>(k);
        if (k == n || level <= scratch[k]) break;
    }
    double change = 0;
    for (std::size_t i = 0; i < n; ++i) {
        double& l = load[static_cast<std::size_t>(group.holders[i])];
        const double next = std::max(0.0, level - l);
        change = std::max(change, std::abs(next - share[i]));
        share[i] = next;
        l += next;
    }
    return change;
}

std::vector<std::uint32_t> to_weights(const HolderGroup& group, const std::vector<double>& share) {
    const double equal = group.demand / static_cast<double>(share.size());
    const bool is_equal = std::all_of(
        share.begin(), share.end(), [&](double s) { return std::abs(s - equal) <= 1e-3 * equal; });
    std::vector<std::uint32_t> weights(share.size(), 1);
    if (is_equal) return weights;
    for (std::size_t i = 0; i < share.size(); ++i) {
        // A residue of the iteration is no share: it would keep cells from being cut in proportion.
        const bool is_residue = share[i] < 1e-3 * equal;
        weights[i] =
            is_residue
                ? 0
                : static_cast<std::uint32_t>(std::llround(share[i] / group.demand * kWeightScale));
    }
    return weights;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> level_shares(std::span<const HolderGroup> groups) {
    Rank ranks = 0;
    double total = 0;
    for (const auto& group : groups) {
        ranks = std::max(ranks, group.holders.back() + 1);
        total += group.demand;
    }
    std::vector<double> load(static_cast<std::size_t>(ranks), 0.0);
    std::vector<std::vector<double>> shares;
    shares.reserve(groups.size());
    for (const auto& group : groups) {
        const double equal = group.demand / static_cast<double>(group.holders.size());
        shares.emplace_back(group.holders.size(), equal);
        for (const Rank r : group.holders) load[static_cast<std::size_t>(r)] += equal;
    }
    std::vector<double> scratch;
    const double mean = ranks > 0 ? total / ranks : 0;
    for (int round = 0; round < kMaxRounds; ++round) {
        double change = 0;
        for (std::size_t g = 0; g < groups.size(); ++g)
            change = std::max(change, refill(groups[g], load, shares[g], scratch));
        if (change <= kConverged * mean) break;
    }
    std::vector<std::vector<std::uint32_t>> weights;
    weights.reserve(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g)
        weights.push_back(to_weights(groups[g], shares[g]));
    return weights;
}

void cut_slices(std::uint64_t units, Bytes unit_bytes, std::span<const std::uint32_t> weights,
                std::uint64_t tensor, std::uint64_t destination, Bytes minimum_slice,
                std::vector<Slice>& slices) {
    const std::uint64_t n = weights.size();
    const auto add = [&](std::uint64_t holder, std::uint64_t begin, std::uint64_t end) {
        if (begin == end) return;
        const auto h = static_cast<std::uint32_t>(holder);
        if (!slices.empty() && slices.back().end == begin && begin != 0 &&
            slices.back().holder == h)
            slices.back().end = end;
        else
            slices.push_back({h, begin, end});
    };
    if (n == 1) return add(0, 0, units);

    const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    // Whole units, rounded up: a slice of fewer would be below the minimum.
    const std::uint64_t least = std::max<std::uint64_t>(1, ceil_div(minimum_slice, unit_bytes));
    const std::uint64_t phase = tensor * kGolden;
    const auto scaled = [](std::uint64_t fraction, std::uint64_t by) {
        return static_cast<std::uint64_t>((static_cast<Wide>(fraction) * by) >> 64);
    };

    // A holder is large here where its part of this cell is not below the minimum.
    const Wide spacing = static_cast<Wide>(least) * sum;
    const auto is_large = [&](std::uint32_t w) { return static_cast<Wide>(units) * w >= spacing; };
    std::uint64_t large = 0;
    std::uint32_t smallest = ~0U, smallest_large = ~0U;
    for (const std::uint32_t w : weights) {
        if (w > 0) smallest = std::min(smallest, w);
        if (!is_large(w)) continue;
        large += w;
        smallest_large = std::min(smallest_large, w);
    }
    if (large > 0) {
        // The others stand in a row, as long as their parts; one of them takes a slice of the
        // minimum wherever a point falls on it. Points are a minimum slice apart. What they leave
        // is cut in proportion among the large ones, which keep their minimum.
        const Wide first_point = ((phase + destination * kGolden) >> 32) * spacing >> 32;
        const auto points_before = [&](Wide at) {
            return at > first_point
                       ? static_cast<std::uint64_t>((at - first_point - 1) / spacing) + 1
                       : 0;
        };
        const Wide needed =
            (static_cast<Wide>(least) * large + smallest_large - 1) / smallest_large;
        const std::uint64_t taken =
            std::min(points_before(static_cast<Wide>(units) * (sum - large)),
                     (units - static_cast<std::uint64_t>(needed)) / least);
        const std::uint64_t rest = units - taken * least;
        const std::uint64_t start = (scaled(phase, n) + destination) % n;
        std::uint64_t small_before = 0, large_before = 0, begin = 0;
        for (std::uint64_t i = 0; i < n; ++i) {
            const std::uint64_t holder = (start + i) % n;
            (is_large(weights[holder]) ? large_before : small_before) += weights[holder];
            const std::uint64_t points =
                std::min(points_before(static_cast<Wide>(units) * small_before), taken);
            const auto end = points * least + static_cast<std::uint64_t>(static_cast<Wide>(rest) *
                                                                         large_before / large);
            add(holder, begin, end);
            begin = end;
        }
        return;
    }
    // Systematic sampling: `count` equally spaced points on a circle of the weights, one equal
    // slice each.
    const std::uint64_t count = std::clamp<std::uint64_t>(units / least, 1, n);
    const bool is_equal = sum == n && smallest == 1;
    // Equal weights: exact rotation over destinations. Otherwise a low-discrepancy offset in [0,
    // sum).
    const std::uint64_t offset = is_equal ? (scaled(phase, n) + destination) % n
                                          : scaled(phase + destination * kGolden, sum);
    std::uint64_t begin = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t point = (offset + i * sum / count) % sum;
        std::uint64_t holder = 0;
        while (point >= weights[holder]) point -= weights[holder++];
        const auto end = static_cast<std::uint64_t>(static_cast<Wide>(units) * (i + 1) / count);
        add(holder, begin, end);
        begin = end;
    }
}

}  // namespace weightlift::plan
