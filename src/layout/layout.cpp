#include "weightlift/layout/layout.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weightlift/base/hash.hpp"

#include "coverage.hpp"

namespace weightlift::layout {

std::string_view to_string(Side side) { return side == Side::Trainer ? "trainer" : "rollout"; }

std::uint64_t Shape::elements() const {
    std::uint64_t product = 1;
    for (const std::uint64_t n : values()) product *= n;
    return product;
}

int Layout::engine_of(Rank rank) const {
    const auto after = std::upper_bound(engine_begins_.begin(), engine_begins_.end(), rank);
    WEIGHTLIFT_ENSURES(after != engine_begins_.begin() && rank < world_size_);
    return static_cast<int>(after - engine_begins_.begin()) - 1;
}

Rank Layout::engine_rank_of(Rank rank) const {
    return rank - engine_begins_[static_cast<std::size_t>(engine_of(rank))];
}

bool Layout::holds(RankSetId id, Rank rank) const {
    return std::binary_search(rank_sets_[id].begin(), rank_sets_[id].end(), rank);
}

std::vector<ParameterIndex> Layout::parameters_of(Rank rank) const {
    std::vector<bool> held(rank_sets_.size());
    for (RankSetId id = 0; id < rank_sets_.size(); ++id) held[id] = holds(id, rank);
    std::vector<ParameterIndex> result;
    for (ParameterIndex i = 0; i < parameters_.size(); ++i)
        if (held[parameters_[i].ranks]) result.push_back(i);
    return result;
}

std::span<const PieceRef> Layout::pieces_of(TensorId tensor) const {
    WEIGHTLIFT_ENSURES(std::size_t{tensor} + 1 < tensor_begin_.size());
    const std::size_t begin = tensor_begin_[tensor], end = tensor_begin_[std::size_t{tensor} + 1];
    return std::span(piece_refs_).subspan(begin, end - begin);
}

Bytes Layout::bytes_of(Rank rank) const {
    Bytes sum = 0;
    for (const ParameterIndex i : parameters_of(rank)) sum += parameters_[i].bytes();
    return sum;
}

namespace {

/// Order-dependent digest of a stream of records of numbers.
class Digest {
public:
    /// One mixing step per record, over a sum with a random odd factor for each field's place.
    template <class... Fields>
    void add(Fields... fields) {
        std::uint64_t place = 0, sum = 0;
        ((sum += static_cast<std::uint64_t>(fields) * (splitmix64(place++) | 1)), ...);
        state_ = splitmix64(state_ ^ sum);
    }
    [[nodiscard]] std::uint64_t value() const { return state_; }

private:
    std::uint64_t state_ = 0;
};

std::uint64_t digest_of(const Parameter& parameter, std::uint64_t name, std::uint64_t holders,
                        const ModelSpec& model) {
    const auto& [sizes, dimensions] = parameter.shape;
    Digest digest;
    digest.add(name, hash_name(parameter.format), static_cast<int>(parameter.dtype), dimensions,
               sizes[0], sizes[1], sizes[2], holders, parameter.pieces.size());
    for (const auto& [tensor, box, offset, pitch] : parameter.pieces)
        digest.add(model.key(tensor), box.rows.begin, box.rows.end, box.columns.begin,
                   box.columns.end, offset, pitch);
    for (const auto& [offset, pitch, rows, row_bytes] : parameter.padding)
        digest.add(offset, pitch, rows, row_bytes);
    return digest.value();
}

/// Refuses two parameters of one name on one rank. `names` are the names' hashes.
void check_names(const Layout& layout, const std::vector<std::uint64_t>& names) {
    const auto parameters = layout.parameters();
    std::vector<std::pair<std::uint64_t, ParameterIndex>> order;
    order.reserve(names.size());
    for (const std::uint64_t name : names)
        order.emplace_back(name, static_cast<ParameterIndex>(order.size()));
    std::sort(order.begin(), order.end());
    // The shards of nearly every parameter are cut over one of a few families of rank sets.
    std::set<std::vector<RankSetId>> disjoint;
    std::vector<std::uint32_t> last_group(static_cast<std::size_t>(layout.world_size()), 0);
    std::uint32_t group = 0;
    std::vector<RankSetId> family;
    for (std::size_t begin = 0; begin < order.size();) {
        const Parameter& first = parameters[order[begin].second];
        family.clear();
        std::size_t end = begin;
        for (; end < order.size() && order[end].first == order[begin].first; ++end) {
            const Parameter& other = parameters[order[end].second];
            if (other.name != first.name)
                throw ConfigError(
                    fmt::format("layout parameters {} and {} have names of equal hash; rename one",
                                first.name, other.name));
            family.push_back(other.ranks);
        }
        begin = end;
        if (family.size() == 1 || !disjoint.insert(family).second) continue;
        ++group;
        for (const RankSetId id : family)
            for (const Rank rank : layout.rank_set(id))
                if (std::exchange(last_group[static_cast<std::size_t>(rank)], group) == group)
                    throw ConfigError(fmt::format(
                        "layout parameter {}: rank {} has two of this name", first.name, rank));
    }
}

}  // namespace

LayoutBuilder::LayoutBuilder(Side side, std::string description, Rank world_size) {
    layout_.side_ = side;
    layout_.description_ = std::move(description);
    layout_.world_size_ = world_size;
    if (world_size < 1)
        throw ConfigError(fmt::format("layout world_size={} must be positive", world_size));
    if (side == Side::Trainer) layout_.engine_begins_ = {0};
}

void LayoutBuilder::begin_engine(Rank first) {
    auto& begins = layout_.engine_begins_;
    if (layout_.side_ == Side::Trainer)
        throw ConfigError("layout engine_begins: a trainer has no engines");
    const Rank least = begins.empty() ? 0 : begins.back() + 1;
    const Rank most = begins.empty() ? 0 : layout_.world_size_ - 1;
    if (first < least || first > most)
        throw ConfigError(
            fmt::format("layout engine_begins: {} is not in [{}, {}]; they start at 0, ascend and "
                        "stay below world_size",
                        first, least, most));
    begins.push_back(first);
}

RankSetId LayoutBuilder::rank_set(std::vector<Rank> ranks) {
    if (ranks.empty()) throw ConfigError("layout ranks: a parameter is held by no rank");
    for (std::size_t i = 0; i < ranks.size(); ++i)
        if (ranks[i] < 0 || ranks[i] >= layout_.world_size_ || (i > 0 && ranks[i] <= ranks[i - 1]))
            throw ConfigError(
                fmt::format("layout ranks: {} is out of place; they must ascend and lie in [0, {})",
                            ranks[i], layout_.world_size_));
    const auto next = static_cast<RankSetId>(layout_.rank_sets_.size());
    const auto [entry, added] = interned_.try_emplace(std::move(ranks), next);
    if (added) layout_.rank_sets_.push_back(entry->first);
    return entry->second;
}

void LayoutBuilder::add(Parameter parameter) {
    WEIGHTLIFT_ENSURES(parameter.ranks < layout_.rank_sets_.size());
    layout_.parameters_.push_back(std::move(parameter));
}

Layout LayoutBuilder::finish(const ModelSpec& model) && {
    if (layout_.engine_begins_.empty())
        throw ConfigError("layout engine_begins: a rollout needs an engine that starts at 0");
    auto& parameters = layout_.parameters_;
    (void)narrow<ParameterIndex>(parameters.size(), "number of layout parameters");

    std::vector<std::uint64_t> holders;
    holders.reserve(layout_.rank_sets_.size());
    for (const auto& ranks : layout_.rank_sets_) {
        Digest digest;
        for (const Rank rank : ranks) digest.add(rank);
        holders.push_back(digest.value());
    }

    Digest digest;
    digest.add(static_cast<int>(layout_.side_), layout_.world_size_);
    for (const Rank begin : layout_.engine_begins_) digest.add(begin);
    std::vector<std::uint64_t> names;
    names.reserve(parameters.size());
    layout_.tensor_begin_.assign(model.tensors().size() + 1, 0);
    for (const Parameter& parameter : parameters) {
        check_content(parameter, model);
        for (const Piece& piece : parameter.pieces)
            ++layout_.tensor_begin_[std::size_t{piece.tensor} + 1];
        names.push_back(hash_name(parameter.name));
        digest.add(digest_of(parameter, names.back(), holders[parameter.ranks], model));
    }
    layout_.digest_ = digest.value();
    check_names(layout_, names);

    auto& begins = layout_.tensor_begin_;
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    layout_.piece_refs_.resize(begins.back());
    std::vector<std::uint32_t> next(begins.begin(), begins.end() - 1);
    for (ParameterIndex p = 0; p < parameters.size(); ++p)
        for (std::uint32_t i = 0; i < parameters[p].pieces.size(); ++i)
            layout_.piece_refs_[next[parameters[p].pieces[i].tensor]++] = {p, i};
    return std::move(layout_);
}

}  // namespace weightlift::layout
